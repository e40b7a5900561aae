"""From logits to tokens. A row's token depends on its logits, its parameters and (seed, output position) alone.

The order is: the grammar's mask (grammar_mask.py); repetition, presence and frequency penalties; logit_bias;
min_tokens; temperature; top_k; top_p; min_p.
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

_LOWEST_LOGPROB = -9999.0  # in place of minus infinity and of what is no number, which JSON doesn't have


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
    tokens = first_of_largest(logits) if len(drawn) < len(rows) else [0] * len(rows)
    if drawn:
        picked = logits if len(drawn) == len(rows) else logits[drawn]
        for i, token in zip(drawn, draw(picked, [rows[i] for i in drawn]), strict=True):
            tokens[i] = token
    return tokens


def first_of_largest(logits: Tensor) -> list[int]:
    """Per row the lowest token id among those of the largest logit."""
    # numpy's search is vectorized, torch's on the CPU is ten times slower; both return the first
    best = logits.numpy().argmax(axis=-1) if logits.device.type == "cpu" else logits.argmax(dim=-1)
    tokens: list[int] = best.tolist()
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
        _ban(logits, row.eos_token_ids | params.stop_token_ids)


def _ban(logits: Tensor, token_ids: frozenset[int]) -> None:
    """On one row (V), in place, unless nothing else is left: a grammar that has come to its end wins."""
    banned = _ids(sorted(i for i in token_ids if i < logits.shape[-1]), logits)
    values = logits[banned]
    logits[banned] = float("-inf")
    if len(banned) and logits.amax() == float("-inf"):
        logits[banned] = values


def _ids(ids: Sequence[int] | set[int], like: Tensor) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.long, device=like.device)


def draw(logits: Tensor, rows: Sequence[SamplingRow]) -> list[int]:
    """One uniform number per row, through the inverse of the cumulated probabilities in the vocabulary's order."""
    device = logits.device
    temperatures = torch.tensor([row.params.temperature for row in rows], dtype=logits.dtype, device=device)
    scaled = (logits - logits.amax(dim=-1, keepdim=True)).div_(temperatures.clamp_min_(1e-6).unsqueeze(1))
    weights = scaled.exp_()
    for i, row in enumerate(rows):
        truncate(weights[i], row.params)
    cumulated = weights.cumsum(dim=-1, dtype=torch.float64)
    totals = cumulated[:, -1]
    u = torch.tensor(
        [uniform(row.params.seed, row.output_position) for row in rows], dtype=torch.float64, device=device
    )
    # below the total even after rounding, so that a token of positive weight is found
    targets = torch.minimum(u * totals, torch.nextafter(totals, torch.zeros_like(totals)))
    tokens: list[int] = torch.searchsorted(cumulated, targets.unsqueeze(1), right=True).squeeze(1).tolist()
    return tokens


def truncate(weights: Tensor, params: SamplingParams) -> None:
    """Sets the weights (V) of tokens outside top_k, top_p and min_p to 0, in place. The best token, of weight 1, stays.

    Of equal weights at the border all stay.
    """
    top_k = params.top_k if 0 < params.top_k < weights.shape[-1] else None
    if params.top_p < 1.0 or top_k is not None:
        weights.masked_fill_(weights < _threshold(weights, top_k, params.top_p), 0)
    if params.min_p > 0:
        weights.masked_fill_(weights < params.min_p, 0)


def _threshold(weights: Tensor, top_k: int | None, top_p: float) -> Tensor:
    """The smallest weight that stays: the least of the k best, and of the fewest best that make up `top_p` of those."""
    if top_k is not None:
        best = torch.topk(weights, top_k).values
        total = best.sum(dtype=torch.float64)
    else:
        # what is left out here weighs no more than 1 - top_p in all, and the best token alone weighs 1
        best = weights[weights > (1 - top_p) / weights.shape[-1]].sort(descending=True).values
        total = weights.sum(dtype=torch.float64)
    if top_p >= 1.0:
        return best[-1]
    cumulated = best.cumsum(0, dtype=torch.float64)
    return best[(cumulated < top_p * total).sum().clamp_max(len(best) - 1)]


def logprobs(logits: Tensor, tokens: Sequence[int], num_top: int) -> list[TokenLogprobs]:
    """(rows, V) raw logits, the tokens drawn from them, and how many of the best to list."""
    values = torch.log_softmax(logits.double(), dim=-1).nan_to_num_(nan=_LOWEST_LOGPROB).clamp_min_(_LOWEST_LOGPROB)
    chosen = values.gather(1, torch.tensor(tokens, device=values.device).unsqueeze(1)).squeeze(1).tolist()
    top = torch.topk(values, num_top, dim=-1)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return [
        TokenLogprobs(logprob, tuple(zip(ids, best, strict=True)))
        for logprob, (ids, best) in zip(chosen, pairs, strict=True)
    ]
