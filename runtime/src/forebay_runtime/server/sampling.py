"""From the wire's fields to sampling parameters: defaults filled in, bounds against this model checked."""

from __future__ import annotations

import secrets
from typing import TypeVar

from forebay_runtime.request import RequestError, SamplingParams
from forebay_runtime.server.protocol import ChatCompletionRequest, CompletionRequest

Number = TypeVar("Number", int, float)

_DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's
_SEEDS = 1 << 63
_STRIDE = 0x9E3779B97F4A7C15  # spreads the seeds of n outputs; odd, so that none meets another


def sampling_params(wire: ChatCompletionRequest | CompletionRequest, vocab_size: int) -> SamplingParams:
    """All but the bound that the context sets to max_tokens (see `within`). The seed is drawn if none is given."""
    seed = secrets.randbelow(_SEEDS) if wire.seed is None else wire.seed % _SEEDS
    return SamplingParams(
        temperature=_or(wire.temperature, 1.0),
        top_p=max(_or(wire.top_p, 1.0), 1e-6),
        top_k=max(wire.top_k or 0, 0),
        min_p=wire.min_p or 0.0,
        presence_penalty=wire.presence_penalty or 0.0,
        frequency_penalty=wire.frequency_penalty or 0.0,
        repetition_penalty=_or(wire.repetition_penalty, 1.0),
        logit_bias=_logit_bias(wire.logit_bias or {}, vocab_size),
        seed=seed,
        max_tokens=_max_tokens(wire),
        min_tokens=wire.min_tokens or 0,
        ignore_eos=bool(wire.ignore_eos),
        stop_token_ids=frozenset(wire.stop_token_ids or ()),
        logprobs=_logprobs(wire),
    )


def seed_of(seed: int, output: int) -> int:
    """The first of n outputs is drawn as a lone one would be."""
    return (seed + output * _STRIDE) % _SEEDS


def _max_tokens(wire: ChatCompletionRequest | CompletionRequest) -> int:
    """What the client grants; a chat without a limit may fill the context."""
    if isinstance(wire, ChatCompletionRequest):
        name, granted = "max_completion_tokens", wire.max_completion_tokens
        if granted is None:
            name, granted = "max_tokens", wire.max_tokens
        most = _SEEDS if granted is None else granted
    else:
        name, most = "max_tokens", _or(wire.max_tokens, _DEFAULT_COMPLETION_TOKENS)
    if (wire.min_tokens or 0) > most:
        raise RequestError(
            f"min_tokens is {wire.min_tokens}, more than {name}, which is {most}.",
            code="invalid_value",
            param="min_tokens",
        )
    return most


def _logprobs(wire: ChatCompletionRequest | CompletionRequest) -> int | None:
    if isinstance(wire, CompletionRequest):
        ranked = wire.num_outputs > (wire.n or 1)
        return 0 if ranked and wire.logprobs is None else wire.logprobs
    return (wire.top_logprobs or 0) if wire.logprobs else None


def _logit_bias(bias: dict[str, float], vocab_size: int) -> tuple[tuple[int, float], ...]:
    pairs = []
    for key, value in bias.items():
        if not (key.isascii() and key.isdigit() and len(key) <= 9 and int(key) < vocab_size):
            raise RequestError(
                f"logit_bias: {key[:64]!r} is no token id of this model, which has {vocab_size}.",
                code="invalid_value",
                param="logit_bias",
            )
        pairs.append((int(key), value))
    return tuple(pairs)


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value
