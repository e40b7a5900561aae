"""Times what the engine costs besides the model: scheduling, book-keeping, finish routine, drafting. No torch.

    python -m bench.engine_steps [--batch 32] [--prompt 1000] [--steps 1000]

CPU time of the engine's thread per step of decodes alone, less the stand-in runner's own; with drafts and without.
"""

from __future__ import annotations

import argparse
import time

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.drafting import NgramDrafter
from forebay_runtime.engine import Engine
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from forebay_runtime.scheduling.step import SampledTokens, Step, StepResult


class Numbers:
    """A runner that answers with a number made from the length, which repeats itself now and then."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def execute(self, step: Step) -> StepResult:
        began = time.thread_time()
        lengths = [s.sequence.num_tokens if s.samples else None for s in step.sequences]
        result = StepResult(tuple(SampledTokens() if n is None else SampledTokens((n * 7919 % 97,)) for n in lengths))
        self.seconds += time.thread_time() - began
        return result


def microseconds_per_step(batch: int, prompt: int, steps: int, num_drafts: int) -> float:
    num_blocks = batch * (prompt + steps * (1 + num_drafts)) // 16 + 2 * batch
    config = SchedulerConfig(
        max_num_seqs=batch, max_num_batched_tokens=4096, max_model_len=1 << 20, num_blocks=num_blocks
    )
    runner = Numbers()
    engine = Engine(Scheduler(config), runner, NgramDrafter(num_drafts) if num_drafts else None)
    for i in range(batch):
        tokens = tuple((i * 1000 + j) % 30000 for j in range(prompt))
        engine.add(Request(str(i), tokens, SamplingParams(max_tokens=1 << 19)))
    for _ in range(batch * prompt // 4096 + 2):
        engine.step()
    runner.seconds = 0.0
    began = time.thread_time()
    for _ in range(steps):
        engine.step()
    return (time.thread_time() - began - runner.seconds) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    for num_drafts in (0, 4):
        cost = microseconds_per_step(args.batch, args.prompt, args.steps, num_drafts)
        print(f"batch {args.batch}, {num_drafts} drafts: {cost:.0f} us of CPU per step")


if __name__ == "__main__":
    main()
