"""From logits to tokens. A row's token depends on its logits, its parameters and (seed, output position) alone.

The order is: repetition, presence and frequency penalties; logit_bias; min_tokens; temperature; top_k; top_p; min_p.
Logprobs are of the model's own distribution, before any of these: log_softmax of the raw logits.
At temperature 0 the token is the first of the largest logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.execution.randomness import uniform
from forebay_runtime.request import SamplingParams, TokenLogprobs

_LOWEST_LOGPROB = -9999.0  # in place of minus infinity, which JSON doesn't have
_FIRST_CANDIDATES = 512  # how many of the best tokens are sorted before a whole row is


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One position to draw at. `output_token_ids`: those before it, accepted drafts included."""

    params: SamplingParams
    output_position: int
    prompt_token_ids: Sequence[int] = ()
    output_token_ids: Sequence[int] = ()
    eos_token_ids: frozenset[int] = frozenset()


def sample(logits: Tensor, rows: Sequence[SamplingRow]) -> list[int]:
    """(rows, V) -> a token per row. The logits are changed in place where a row's parameters ask for it."""
    for i, row in enumerate(rows):
        adjust(logits[i], row)
    drawn = [i for i, row in enumerate(rows) if row.params.temperature > 0]
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    if drawn:
        picked = logits if len(drawn) == len(rows) else logits[drawn]
        for i, token in zip(drawn, draw(picked, [rows[i] for i in drawn]), strict=True):
            tokens[i] = token
    return tokens


def adjust(logits: Tensor, row: SamplingRow) -> None:
    """Penalties, biases and bans, on one row of logits (V), in place."""
    params = row.params
    if params.repetition_penalty != 1.0:
        seen = _ids({*row.prompt_token_ids, *row.output_token_ids}, logits)
        values = logits[seen]
        logits[seen] = torch.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        ids, counts = torch.unique(_ids(row.output_token_ids, logits), return_counts=True)
        logits[ids] -= params.presence_penalty + params.frequency_penalty * counts.to(logits.dtype)
    if params.logit_bias:
        ids_of_bias, biases = zip(*params.logit_bias, strict=True)
        logits[_ids(ids_of_bias, logits)] += torch.tensor(biases, dtype=logits.dtype, device=logits.device)
    if row.output_position < params.min_tokens:
        banned = row.eos_token_ids | params.stop_token_ids
        logits[_ids(sorted(i for i in banned if i < logits.shape[-1]), logits)] = float("-inf")


def _ids(ids: Sequence[int] | set[int], like: Tensor) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.long, device=like.device)


def draw(logits: Tensor, rows: Sequence[SamplingRow]) -> list[int]:
    """One uniform number per row, through the inverse of the cumulated probabilities in the vocabulary's order."""
    device = logits.device
    temperatures = torch.tensor([row.params.temperature for row in rows], dtype=torch.float64, device=device)
    scaled = logits.double() / temperatures.clamp_min(1e-6).unsqueeze(1)
    scaled -= scaled.amax(dim=-1, keepdim=True)
    weights = scaled.exp_()
    for i, row in enumerate(rows):
        truncate(weights[i], row.params)
    cumulated = weights.cumsum(dim=-1)
    u = torch.tensor(
        [uniform(row.params.seed, row.output_position) for row in rows], dtype=torch.float64, device=device
    )
    targets = (u * cumulated[:, -1]).unsqueeze(1)
    tokens = torch.searchsorted(cumulated, targets, right=True).squeeze(1)
    return list(tokens.clamp_max(_last_possible(weights)).tolist())


def _last_possible(weights: Tensor) -> Tensor:
    """Of each row the last token of positive weight: where rounding may not lead beyond."""
    positive = (weights > 0).to(torch.uint8)
    return weights.shape[-1] - 1 - positive.flip(-1).argmax(dim=-1)


def truncate(weights: Tensor, params: SamplingParams) -> None:
    """Sets the weights (V) of tokens outside top_k, top_p and min_p to 0, in place. The best token always stays.

    min_p is relative to the best token, whose weight is 1. Of equal weights at the border all stay.
    """
    vocab_size = weights.shape[-1]
    top_k = params.top_k if 0 < params.top_k < vocab_size else vocab_size
    if params.top_p < 1.0 or top_k < vocab_size:
        weights.masked_fill_(weights < _threshold(weights, top_k, params.top_p), 0)
    if params.min_p > 0:
        weights.masked_fill_(weights < params.min_p * weights.amax(), 0)


def _threshold(weights: Tensor, top_k: int, top_p: float) -> Tensor:
    """The smallest weight that stays: the least of the k best, and of the fewest best that make up `top_p` of those."""
    for candidates in (min(_FIRST_CANDIDATES, top_k), top_k):
        best = torch.topk(weights, candidates).values
        if top_p >= 1.0:
            if candidates == top_k:
                return best[-1]
            continue
        total = best.sum() if candidates == top_k else weights.sum()
        before = best.cumsum(0) - best
        needed = int((before < top_p * total).sum())
        if candidates == top_k or (needed < candidates and top_k == weights.shape[-1]):
            return best[max(needed, 1) - 1]
    raise AssertionError("the last round returns")


def logprobs(logits: Tensor, tokens: Sequence[int], num_top: int) -> list[TokenLogprobs]:
    """(rows, V) raw logits, the tokens drawn from them, and how many of the best to list."""
    values = torch.log_softmax(logits.double(), dim=-1).clamp_min_(_LOWEST_LOGPROB)
    chosen = values.gather(1, torch.tensor(tokens, device=values.device).unsqueeze(1)).squeeze(1).tolist()
    top = torch.topk(values, num_top, dim=-1)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return [
        TokenLogprobs(logprob, tuple(zip(ids, best, strict=True)))
        for logprob, (ids, best) in zip(chosen, pairs, strict=True)
    ]
