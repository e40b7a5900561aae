"""Ours: the engine in a process of its own for single steps, `forebay-runtime serve` for the rest."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench import load, text
from bench.cases import NotOffered
from bench.server_process import ServerProcess, memory_of_torch, started
from bench.state import STATE
from forebay_runtime.__main__ import SPINS
from forebay_runtime.config import ModelOptions, SchedulerOptions
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import ScheduledSequence

if TYPE_CHECKING:
    from forebay_runtime.server.served import Served

_QUANTIZATION: dict[str, Literal["none", "int8", "int4"]] = {"int8": "int8", "int4": "int4", "bf16": "none"}


class Forebay:
    ours = True

    def __init__(self, name: str, model: Path, width: str, threads: int) -> None:
        self.name, self.width = name, width
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # as the command sets it, before torch is imported
        self._options = ModelOptions(str(model), quantization=_QUANTIZATION[width], threads=threads)
        self._worker = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _load, (self._options,))

    def prefill(self, tokens: int) -> float:
        return self._worker.submit(_prefill, tokens).result()

    def decode(self, batch: int, context: int) -> float:
        return self._worker.submit(_decode, batch, context).result()

    def batch(self, prompts: SequenceOf[SequenceOf[int]], max_tokens: int) -> float:
        """Tokens per second of answers of that length to all prompts at once, by the engine's loop alone."""
        return self._worker.submit(_batch, prompts, max_tokens).result()

    def one_by_one(self, asked: SequenceOf[load.Asked]) -> float:
        raise NotOffered

    def perplexity(self) -> float:
        return self._worker.submit(_perplexity, self._options).result()

    @contextmanager
    def serving(self, streams: int, context: int) -> Iterator[ServerProcess]:
        command = [sys.executable, "-m", "forebay_runtime", "serve", self._options.path]
        command += ["--quantization", self._options.quantization, "--threads", str(self._options.threads)]
        command += ["--max-model-len", str(context), "--max-num-seqs", str(streams)]
        with started(command, "/ready", STATE / f"{self.name}.log") as server:
            yield server

    def peak_memory_base(self) -> float:
        return memory_of_torch()

    def close(self) -> None:
        self._worker.shutdown()


# ------------------------------------------------------------------ in the worker process, which holds one engine
_BLOCK_SIZE = 16
_served: Served


def _load(model: ModelOptions) -> None:
    global _served
    from forebay_runtime.build import build
    from forebay_runtime.progress import Progress

    options = SchedulerOptions(max_model_len=2048, kv_cache_memory=4 << 30)  # 32 sequences of 1,024 tokens, and spare
    _served = build(model, options, Progress())


def _request(name: str, prompt: list[int], max_tokens: int) -> Request:
    return Request(name, tuple(prompt), SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True))


def _prefill(tokens: int) -> float:
    engine = _served.engine
    engine.add(_request("prefill", random.choices(range(100, _served.vocab_size), k=tokens), 1))
    began = time.perf_counter()
    while engine.has_work:
        engine.step()
    return tokens / (time.perf_counter() - began)


def _batch(prompts: SequenceOf[SequenceOf[int]], max_tokens: int) -> float:
    engine = _served.engine
    began = time.perf_counter()
    for i, prompt in enumerate(prompts):
        engine.add(_request(str(i), list(prompt), max_tokens))
    while engine.has_work:
        engine.step()
    return len(prompts) * max_tokens / (time.perf_counter() - began)


def _decode(batch: int, context: int) -> float:
    """The prompts are the same in every round: from the second on the prefix cache has them. No two share a block."""
    engine, steps = _served.engine, 64 if batch == 1 else 32
    waiting = {str(i) for i in range(batch)}
    for name in waiting:
        prompt = random.Random(name).choices(range(100, _served.vocab_size), k=context)
        engine.add(_request(name, prompt, 900))
    while waiting:
        waiting -= {output.request_id for output in engine.step() if output.token_ids}
    began = time.perf_counter()
    tokens = sum(len(output.token_ids) for _ in range(steps) for output in engine.step())
    seconds = time.perf_counter() - began
    for i in range(batch):
        engine.abort(str(i))
    return tokens / seconds


def _perplexity(model: ModelOptions) -> float:
    """Log probabilities of prompt tokens are asked of the model itself: half a window as prompt, the rest as drafts."""
    import torch

    from forebay_runtime.execution import Runner
    from forebay_runtime.models import load

    loaded = load(dataclasses.replace(model, max_model_len=text.WINDOW))
    num_blocks = text.WINDOW // _BLOCK_SIZE + 1
    runner = Runner(loaded, num_blocks=num_blocks, block_size=_BLOCK_SIZE)
    half, losses = text.WINDOW // 2, []
    for window in text.windows(Path(model.path)):
        prompt = window[: half + 1]
        sequence = Sequence(_request("window", prompt, 1), prompt, len(prompt), list(range(1, num_blocks)))
        with torch.inference_mode():
            scheduled = ScheduledSequence(sequence, len(prompt), tuple(window[half + 1 :]))
            logits = runner.model.logits((scheduled,))[:-1]
            losses.append(torch.nn.functional.cross_entropy(logits.float(), torch.tensor(window[half + 1 :])).item())
    return math.exp(statistics.fmean(losses))
