"""What a client asks of the engine, what it gets back, and whose fault an error is. No I/O, no torch."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from forebay_runtime.adapter import Adapter
from forebay_runtime.grammar import GrammarState

_LONGEST_MESSAGE, _LONGEST_PARAM = 2048, 256  # characters: both may quote what the client sent


class RequestError(Exception):
    """The client's fault. `status` is the HTTP status, `code` and `param` go into the OpenAI-shaped body.

    `retry_after`: seconds after which the same request may be admitted; None where trying again is no use.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = _cut(message, _LONGEST_MESSAGE)
        self.param = None if param is None else _cut(param, _LONGEST_PARAM)
        self.status, self.code = status, code
        self.retry_after = retry_after


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


class FinishReason(enum.Enum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


class Pooling(enum.Enum):
    """How the hidden states of a prompt's tokens become one vector."""

    MEAN = "mean"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. `seed` is always concrete here: the server draws one where the client named none.

    Randomness is keyed by (seed, output position), so that the same logits give the same text in any batch.
    At the first `min_tokens` output positions the sampler bars eos_token_ids and stop_token_ids, unless a grammar
    leaves nothing else. Where there is a grammar, `ignore_eos` is without effect: its end is the output's.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: no limit
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0
    max_tokens: int = 16
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None  # None: none; k >= 0: the chosen token's and the k best


@dataclass(frozen=True, slots=True)
class Request:
    """One token stream asked for: a client's request with n outputs becomes n of these, each with its own seed."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    eos_token_ids: frozenset[int] = frozenset()
    cache_salt: str = ""
    priority: int = 0  # lower ones go first
    arrival: float = 0.0  # seconds, monotonic; only for ageing and metrics
    grammar: GrammarState | None = None  # of this output alone; execution moves it along with the output
    adapter: Adapter | None = None  # None: the model as it is
    pooling: Pooling | None = None  # not None: the prompt's vector is wanted, and no token


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """`logprob` of the sampled token and the best (token_id, logprob) pairs, best first; all finite."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What one step added to one request. `finish_reason` set: the last output of that request.

    A token that ends the output (eos or a stop id) is the last of `token_ids` and counts in the usage; whether its
    text is shown is the detokenizer's matter. No token after it is ever given.
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    num_cached_tokens: int = 0
    error: str = field(default="")
    queue_seconds: float = 0.0  # from the request's arrival to its first step
    embedding: tuple[float, ...] = ()  # the last output of a request with pooling has it, and no tokens
