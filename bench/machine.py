"""What the figures were measured on, and how busy it was."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path

import torch

from bench import llama_cpp_tools


def machine(threads: int) -> dict[str, str | int | float]:
    return {
        "cpu": _cpu_name(),
        "instructions": " ".join(sorted(name for name, has in torch.cpu.get_capabilities().items() if has is True)),
        "threads": threads,
        "memory_read_gb_per_s": round(memory_read(threads), 1),
        "load_average_before": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    named = {name: importlib.metadata.version(name) for name in ("forebay-runtime", "torch", "transformers")}
    return {"python": platform.python_version()} | named | {"llama.cpp": llama_cpp_tools.version()}


def memory_read(threads: int) -> float:
    """GB/s at best of five sums over a gigabyte, which no cache holds."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    values, taken = torch.ones(1 << 28), []
    for _ in range(5):
        began = time.perf_counter()
        values.sum()
        taken.append(time.perf_counter() - began)
    torch.set_num_threads(before)
    return values.nbytes / min(taken) / 1e9


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
