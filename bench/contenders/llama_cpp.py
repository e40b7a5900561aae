"""llama.cpp by its own programs: llama-bench, llama-batched-bench, llama-perplexity, llama-server."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench import llama_cpp_tools, load, text
from bench.cases import NotOffered
from bench.models import Model
from bench.server_process import ServerProcess, started
from bench.state import STATE


class LlamaCpp:
    ours = False

    def __init__(self, name: str, model: Model, kind: str, threads: int) -> None:
        self.name, self._threads = name, str(threads)
        self.width = {"Q8_0": "int8", "Q4_0": "int4", "BF16": "bf16"}[kind]
        self._file = str(model.bf16 if kind == "BF16" else model.quantized(kind))

    def prefill(self, tokens: int) -> float:
        return self._bench("-p", str(tokens), "-n", "0")

    def decode(self, batch: int, context: int) -> float:
        if batch == 1:
            return self._bench("-p", "0", "-n", "64", "-d", str(context))
        # The prompt is read once and its KV copied to each sequence's own buffer: as much to read in each step, sooner.
        shape = ["-npp", str(context), "-ntg", "32", "-npl", str(batch), "-c", str(batch * (context + 32))]
        shape += ["-pps", "-no-kvu"]
        lines = self._run("llama-batched-bench", *shape, "--output-format", "jsonl").splitlines()
        return float(next(json.loads(line)["speed_tg"] for line in lines if line.startswith("{")))

    def one_by_one(self, asked: Sequence[load.Asked]) -> float:
        raise NotOffered

    def perplexity(self) -> float:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text.text())
            file.flush()
            window = ["-c", str(text.WINDOW), "--chunks", str(text.WINDOWS)]
            told = self._run("llama-perplexity", "-f", file.name, *window)
        found = re.search(r"PPL = ([\d.]+)", told)
        if found is None:
            raise RuntimeError(f"llama-perplexity told no estimate: {told[-500:]}")
        return float(found[1])

    @contextmanager
    def serving(self, streams: int, context: int) -> Iterator[ServerProcess]:
        """Its store of old prompts in memory is of no use to a load without repetition, so it need not keep one."""
        command = [llama_cpp_tools.path("llama-server"), "-m", self._file, "-t", self._threads]
        command += ["-np", str(streams), "-c", str(streams * context), "--cache-ram", "0"]
        with started(command, "/health", STATE / f"{self.name}.log") as server:
            yield server

    def peak_memory_base(self) -> float:
        return 0.0

    def close(self) -> None:
        pass

    def _bench(self, *shape: str) -> float:
        told: list[dict[str, Any]] = json.loads(self._run("llama-bench", *shape, "-r", "1", "-o", "json"))
        return float(told[0]["avg_ts"])

    def _run(self, tool: str, *arguments: str) -> str:
        command = [llama_cpp_tools.path(tool), "-m", self._file, "-t", self._threads, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr[-1000:]}")
        return done.stdout + done.stderr if tool == "llama-perplexity" else done.stdout
