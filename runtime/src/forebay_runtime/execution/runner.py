"""Executes steps on a loaded model: the door between the scheduler's decisions and the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from forebay_runtime.execution.acceptance import num_accepted
from forebay_runtime.execution.grammar_mask import bar_by_grammar
from forebay_runtime.execution.native_model import NativeModel
from forebay_runtime.execution.sampler import SamplingRow, logprobs, sample
from forebay_runtime.execution.torch_model import TorchModel
from forebay_runtime.models import LoadedModel
from forebay_runtime.request import TokenLogprobs
from forebay_runtime.scheduling.step import DeviceError, SampledTokens, ScheduledSequence, Step, StepResult


class StepModel(Protocol):
    def logits(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        """Writes the KV of every token. For each sequence that samples, in order, the logits (V) of its last known
        token and of each draft: float32, or float64 where the model is. They may be changed in place, and the next
        call may overwrite them.
        """
        ...

    def hidden(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        """Writes the KV of every token. For each sequence, in order, what the head would get of its `num_pooled` last
        tokens: (rows, hidden size), in the type of logits.
        """
        ...


class Runner:
    """Holds the KV cache. `execute` runs chunks, decodes and draft verification of one step in a single pass, and what
    is to be pooled in one of its own, which needs no head.
    """

    def __init__(self, loaded: LoadedModel, *, num_blocks: int, block_size: int) -> None:
        self.model: StepModel = (
            TorchModel(loaded, num_blocks=num_blocks, block_size=block_size)
            if loaded.library is None
            else NativeModel(loaded.library, loaded, num_blocks=num_blocks, block_size=block_size)
        )

    def execute(self, step: Step) -> StepResult:
        """One SampledTokens per scheduled sequence, in the step's order. DeviceError where the device can't go on."""
        if not step.sequences:
            return StepResult(())
        try:
            with torch.inference_mode():
                return StepResult(tuple(self._execute(step.sequences)))
        except torch.AcceleratorError as e:
            raise DeviceError(str(e).splitlines()[0]) from e

    def _execute(self, scheduled: Sequence[ScheduledSequence]) -> Sequence[SampledTokens]:
        pooling = [s for s in scheduled if s.sequence.request.pooling is not None]
        if not pooling:
            return sample_step(self.model.logits(scheduled), scheduled)
        generating = [s for s in scheduled if s.sequence.request.pooling is None]
        sampled = iter(sample_step(self.model.logits(generating), generating) if generating else ())
        pooled = iter(pool_step(self.model.hidden(pooling), pooling))
        return [next(sampled if s.sequence.request.pooling is None else pooled) for s in scheduled]


def pool_step(hidden: Tensor, scheduled: Sequence[ScheduledSequence]) -> list[SampledTokens]:
    """`hidden`: the rows of each sequence, in order. Sums are float64, so that chunks of any size give the same."""
    results, at = [], 0
    for s in scheduled:
        rows = hidden[at : at + s.num_pooled]
        results.append(SampledTokens(pooled=tuple(rows.double().sum(0).tolist()) if s.num_pooled else ()))
        at += s.num_pooled
    return results


def sample_step(logits: Tensor, scheduled: Sequence[ScheduledSequence]) -> list[SampledTokens]:
    """`logits`: 1 + drafts rows for each sequence that samples, in order."""
    rows = [row for s in scheduled if s.samples for row in sampling_rows(s)]
    if not rows:
        return [SampledTokens() for _ in scheduled]
    probabilities = _logprobs_source(logits, rows)
    bar_by_grammar(logits, scheduled)
    tokens = sample(logits, rows)
    results, at = [], 0
    for s in scheduled:
        if not s.samples:
            results.append(SampledTokens())
            continue
        width = 1 + len(s.draft_token_ids)
        sampled = tokens[at : at + width]
        kept = sampled[: 1 + num_accepted(s.draft_token_ids, sampled)]
        results.append(SampledTokens(tuple(kept), _logprobs(probabilities, at, kept, s)))
        at += width
    return results


def sampling_rows(scheduled: ScheduledSequence) -> list[SamplingRow]:
    """The position after the last known token, then one after each draft, as if those before it were accepted."""
    sequence = scheduled.sequence
    request, output = sequence.request, sequence.output_token_ids
    prompt = sequence.token_ids[: sequence.num_prompt_tokens]
    return [
        SamplingRow(
            params=request.sampling,
            output_position=len(output) + i,
            prompt_token_ids=prompt,
            output_token_ids=output + list(scheduled.draft_token_ids[:i]) if i else output,
            eos_token_ids=request.eos_token_ids,
        )
        for i in range(1 + len(scheduled.draft_token_ids))
    ]


def _logprobs_source(logits: Tensor, rows: Sequence[SamplingRow]) -> Tensor | None:
    """Raw logits where any row asks for logprobs: a copy, since sampling changes them."""
    return logits.clone() if any(row.params.logprobs is not None for row in rows) else None


def _logprobs(
    logits: Tensor | None, at: int, tokens: Sequence[int], scheduled: ScheduledSequence
) -> tuple[TokenLogprobs, ...]:
    num_top = scheduled.sequence.request.sampling.logprobs
    if logits is None or num_top is None:
        return ()
    return tuple(logprobs(logits[at : at + len(tokens)], tokens, num_top))
