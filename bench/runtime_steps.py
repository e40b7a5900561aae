"""Times single steps of the runtime: prefill, decode at several batch sizes, a warm prefix. No server, no scheduler.

`--clock cpu` counts processor time, which other work on the machine disturbs less; `wall` is what a user waits for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.execution import Runner
from forebay_runtime.models import load
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import ScheduledSequence, Step

BLOCK_SIZE = 16


def sequence(first_block: int, num_tokens: int, max_tokens: int, temperature: float) -> Sequence:
    ids = [(31 * i + 7 * first_block) % 40000 + 100 for i in range(num_tokens)]
    blocks = list(range(first_block, first_block + -(-max_tokens // BLOCK_SIZE)))
    return Sequence(Request("r", tuple(ids), SamplingParams(temperature=temperature)), ids, num_tokens, blocks)


def best(clock: Callable[[], float], times: int, act: Callable[[], object]) -> float:
    act()
    taken = []
    for _ in range(times):
        start = clock()
        act()
        taken.append(clock() - start)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantization", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()
    clock = time.process_time if args.clock == "cpu" else time.perf_counter
    start = clock()
    loaded = load(
        ModelOptions(
            args.model,
            dtype=args.dtype,
            device=args.device,
            quantization=args.quantization,
            max_model_len=2048,
            threads=args.threads,
        )
    )
    print(f"load                {(clock() - start) * 1e3:9.1f} ms  {loaded.dtype} {loaded.quantization}")
    runner = Runner(loaded, num_blocks=32 * 64 + 1, block_size=BLOCK_SIZE)

    def run(sequences: list[Sequence], computed: int) -> object:
        for s in sequences:
            s.num_computed_tokens = computed
        return runner.execute(Step(tuple(ScheduledSequence(s, s.num_tokens - computed) for s in sequences)))

    for i in range(32):  # memory that was never written costs nothing to read
        run([sequence(1 + 64 * i, args.context, 1024, args.temperature)], 0)

    for num_tokens in (128, 512):
        one = sequence(1, num_tokens, 1024, args.temperature)
        taken = best(clock, args.times, partial(run, [one], 0))
        print(f"prefill {num_tokens:5}       {taken * 1e3:9.1f} ms  {num_tokens / taken:9.0f} tok/s")
    warm = sequence(1, 512, 1024, args.temperature)
    print(f"warm prefix 512     {best(clock, args.times, partial(run, [warm], 496)) * 1e3:9.1f} ms")
    for batch in (1, 4, 8, 32):
        many = [sequence(1 + 64 * i, args.context, 1024, args.temperature) for i in range(batch)]
        taken = best(clock, args.times, partial(run, many, args.context - 1))
        print(f"decode batch {batch:4}   {taken * 1e3:9.1f} ms  {batch / taken:9.0f} tok/s")


if __name__ == "__main__":
    main()
