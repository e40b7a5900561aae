"""What a newcomer would write: transformers' own generate on bf16 weights, one request after the other."""

from __future__ import annotations

import math
import multiprocessing
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench import load, text
from bench.cases import NotOffered
from bench.models import Model
from bench.server_process import ServerProcess


class Newcomer:
    ours = False
    width = "bf16"

    def __init__(self, name: str, model: Model, threads: int) -> None:
        self.name, self._file = name, model.bf16
        self._worker = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _load, (str(model.hf), threads))

    def prefill(self, tokens: int) -> float:
        return self._worker.submit(_prefill, tokens).result()

    def decode(self, batch: int, context: int) -> float:
        """Whoever comes meanwhile waits: the rate is the same for any number of requests."""
        return self._worker.submit(_decode, context).result()

    def one_by_one(self, asked: Sequence[load.Asked]) -> float:
        return self._worker.submit(_one_by_one, asked).result()

    def perplexity(self) -> float:
        return self._worker.submit(_perplexity, str(self._file)).result()

    def serving(self, streams: int, context: int) -> AbstractContextManager[ServerProcess]:
        raise NotOffered

    def peak_memory_base(self) -> float:
        raise NotOffered

    def close(self) -> None:
        self._worker.shutdown()


# ------------------------------------------------------------------ in the worker process
_model: Any


def _load(directory: str, threads: int) -> None:
    global _model
    import torch
    import transformers

    torch.set_num_threads(threads)
    _model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16)


def _generate(prompt: list[int], tokens: int) -> float:
    import torch

    ids, began = torch.tensor([prompt]), time.perf_counter()
    _model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False
    )
    return time.perf_counter() - began


def _prompt(tokens: int) -> list[int]:
    return random.choices(range(100, _model.config.vocab_size), k=tokens)


def _prefill(tokens: int) -> float:
    return tokens / _generate(_prompt(tokens), 1)


def _decode(context: int) -> float:
    prompt = _prompt(context)
    first = _generate(prompt, 1)
    return 32 / (_generate(prompt, 33) - first)


def _one_by_one(asked: Sequence[load.Asked]) -> float:
    seconds = sum(_generate(a.prompt, a.max_tokens) for a in asked)
    return sum(a.max_tokens for a in asked) / seconds


def _perplexity(vocabulary: str) -> float:
    import torch

    rows, losses = torch.arange(text.WINDOW // 2, text.WINDOW - 1), []
    for window in text.windows(Path(vocabulary)):
        ids = torch.tensor([window])
        with torch.inference_mode():
            logits = _model(ids).logits[0, rows].float()
        losses.append(torch.nn.functional.cross_entropy(logits, ids[0, rows + 1]).item())
    return math.exp(statistics.fmean(losses))
