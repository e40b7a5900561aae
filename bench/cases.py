"""What is measured. A case is measured once a round for each contender, and gives one or more figures."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from bench import load
from bench.server_process import ServerProcess

# Figures of which less is better, by the unit that their names end with.
LESS_IS_BETTER = ("ms", "s", "MB", "perplexity")


class NotOffered(Exception):
    """The contender has no such thing."""


class Contender(Protocol):
    """Something that runs a model: made for one model and one number of threads. Rates are in tokens per second."""

    name: str
    width: str  # of its weights: bf16, int8, int4
    ours: bool

    def prefill(self, tokens: int) -> float: ...

    def decode(self, batch: int, context: int) -> float:
        """Of all sequences of the batch together, once each has `context` tokens."""
        ...

    def one_by_one(self, asked: Sequence[load.Asked]) -> float:
        """Of requests that wait for each other, the prompts' time included. Only of what cannot serve many at once."""
        ...

    def perplexity(self) -> float:
        """Of the second halves of text.windows."""
        ...

    def serving(self, streams: int, context: int) -> AbstractContextManager[ServerProcess]:
        """A server with room for that many streams of that many tokens each."""
        ...

    def peak_memory_base(self) -> float:
        """MB of a server's memory that are torch's own, before it holds anything."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Case:
    name: str

    @property
    def once(self) -> bool:
        """One round tells enough: the figures are always the same, or so far apart that minutes are better spent."""
        return self.name in ("perplexity", "one-by-one")

    def measure(self, contender: Contender, text: Sequence[int]) -> dict[str, float]:
        """Figures by name. `text`: the model's tokens of some long text. NotOffered."""
        if found := re.fullmatch(r"prefill-(\d+)", self.name):
            return {f"{self.name} tokens/s": contender.prefill(int(found[1]))}
        if found := re.fullmatch(r"decode-(\d+)(?:@(\d+))?", self.name):
            return {f"{self.name} tokens/s": contender.decode(int(found[1]), int(found[2] or 128))}
        match self.name:
            case "perplexity":
                return {"perplexity": contender.perplexity()}
            case "served":
                return _served(contender, text)
            case "one-by-one":
                # Two of the mixed load's 32: who answers one at a time answers all of it at the rate of these.
                return {"mixed tokens/s": contender.one_by_one(load.mixed(text)[::16])}
        raise ValueError(
            f"there is no case {self.name!r}: prefill-N, decode-N, decode-N@CONTEXT, served, one-by-one, perplexity"
        )


def _served(contender: Contender, text: Sequence[int]) -> dict[str, float]:
    """One client's view of a server that has just started, then that of 32 whose requests differ in size."""
    with contender.serving(streams=32, context=1024 + 256) as server:
        figures = _alone_and_alike(server.url, text) | _mixed(server.url, text)
        peak = server.peak_memory()
    return figures | {
        "start-up s": server.start_seconds,
        "peak memory MB": peak,
        "peak memory beyond torch MB": peak - contender.peak_memory_base(),
    }


def _alone_and_alike(url: str, text: Sequence[int]) -> dict[str, float]:
    """Short prompts alone and 32 at once, a long prompt cold and again."""

    def rate(streams: int) -> float:
        asked = [load.Asked(p, 64) for p in load.prompts(text, 32, streams)]
        seen, seconds = load.all_at_once(url, asked)
        return sum(s.tokens for s in seen) / seconds

    def first(prompt: list[int]) -> float:
        return load.all_at_once(url, [load.Asked(prompt, 1)])[0][0].events[0]

    rate(1)
    prompt = load.prompts(text, 512, 1)[0]
    return {
        "http decode-1 tokens/s": rate(1),
        "http decode-32 tokens/s": rate(32),
        "http prefill-512 tokens/s": 512 / first(prompt),
        "http warm-512 TTFT ms": 1000 * statistics.median(first(prompt) for _ in range(3)),
    }


def _mixed(url: str, text: Sequence[int]) -> dict[str, float]:
    """32 streams that all come at once."""
    seen, seconds = load.all_at_once(url, load.mixed(text))
    figures = {"mixed tokens/s": sum(s.tokens for s in seen) / seconds}
    for name, values in (("TTFT", [s.events[0] for s in seen]), ("ITL", load.gaps(seen))):
        figures |= {f"mixed {name} {p} ms": 1000 * v for p, v in load.percentiles(values).items()}
    return figures
