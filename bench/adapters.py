"""What LoRA adapters cost: steps of one batch as the base, with one adapter, with several, and with a few of them.

`python -m bench.adapters --model .models/smollm2 --rank 16 --batch 32`
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from forebay_runtime.adapter import Adapter
from forebay_runtime.config import ModelOptions, SchedulerConfig
from forebay_runtime.engine import Engine
from forebay_runtime.execution import Runner
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.models.peft import projections_of, read_adapter
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler

PROMPT, ANSWER, ADAPTERS, ROUNDS = 128, 24, 4, 5


def random_adapter(directory: Path, model: LoadedModel, rank: int, seed: int) -> Adapter:
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(model.num_layers):
        for name, shape in projections_of(model.config).items():
            module = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{module}.lora_A.weight"] = torch.randn(rank, shape.inputs, generator=draw) / shape.inputs**0.5
            tensors[f"{module}.lora_B.weight"] = torch.randn(shape.size, rank, generator=draw) * 0.02
    save_file(tensors, directory / "adapter_model.safetensors")
    (directory / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank}))
    return Adapter(str(seed), read_adapter(directory, model, rank))


def seconds(runner: Runner, adapters: list[Adapter | None], num_blocks: int) -> tuple[float, float]:
    """Of the step that computes every prompt, and of a step of one token each: the faster quarter."""
    bounds = SchedulerConfig(len(adapters), PROMPT * len(adapters), 0, 1024, 16, num_blocks, prefix_caching=False)
    engine = Engine(Scheduler(bounds), runner)
    for i, adapter in enumerate(adapters):
        prompt = tuple((i * 31 + j * 7) % 1000 for j in range(PROMPT))
        sampling = SamplingParams(temperature=0.0, max_tokens=ANSWER, ignore_eos=True)
        engine.add(Request(str(i), prompt, sampling, adapter=adapter))
    times = []
    while engine.has_work:
        began = time.perf_counter()
        engine.step()
        times.append(time.perf_counter() - began)
    return times[0], sorted(times[1:])[len(times) // 4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=".models/smollm2")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    model = load(ModelOptions(args.model, device="cpu", threads=args.threads))
    with tempfile.TemporaryDirectory() as directory:
        adapters = [random_adapter(Path(directory), model, args.rank, seed) for seed in range(ADAPTERS)]
    batch = range(args.batch)
    cases: dict[str, list[Adapter | None]] = {
        "base": [None for _ in batch],
        "one adapter": [adapters[0] for _ in batch],
        f"{ADAPTERS} adapters": [adapters[i % ADAPTERS] for i in batch],
        "every eighth has one": [None if i % 8 else adapters[0] for i in batch],
    }
    num_blocks = args.batch * -(-(PROMPT + ANSWER) // 16)
    runner = Runner(model, num_blocks=num_blocks, block_size=16)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            measured[name].append(seconds(runner, case, num_blocks))
    for name, times in measured.items():
        prefill, decode = (min(column) for column in zip(*times, strict=True))
        tokens = args.batch * PROMPT / prefill, args.batch / decode
        print(f"{name:22} {tokens[0]:7.0f} prompt tokens/s, {decode * 1e3:7.2f} ms a step, {tokens[1]:6.0f} tokens/s")


if __name__ == "__main__":
    main()
