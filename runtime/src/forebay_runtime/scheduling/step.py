"""One scheduler decision and its result: the only things that pass between scheduling and execution."""

from __future__ import annotations

from dataclasses import dataclass

from forebay_runtime.request import FinishReason, Pooling, TokenLogprobs
from forebay_runtime.scheduling.sequence import Sequence


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """Run `num_new_tokens` of `sequence` from its num_computed_tokens on, then `draft_token_ids` after its last token.

    `num_new_tokens` counts known tokens only. Logits are wanted (a token is sampled) exactly if
    num_computed_tokens + num_new_tokens == num_tokens and the request asks for tokens; drafts are given only then. The
    block table already covers every token of the step, the drafts' too.
    """

    sequence: Sequence
    num_new_tokens: int
    draft_token_ids: tuple[int, ...] = ()

    @property
    def samples(self) -> bool:
        return self.sequence.request.pooling is None and self.completes

    @property
    def completes(self) -> bool:
        """After this step every known token has been computed."""
        s = self.sequence
        return s.num_computed_tokens + self.num_new_tokens == s.num_tokens

    @property
    def num_rows(self) -> int:
        """Of how many tokens, the last ones of the step, the final hidden states are wanted: for logits, or pooled."""
        return 1 + len(self.draft_token_ids) if self.samples else self.num_pooled

    @property
    def num_pooled(self) -> int:
        """Of how many tokens, the last ones of the step, the hidden states are summed up."""
        match self.sequence.request.pooling:
            case None:
                return 0
            case Pooling.MEAN:
                return self.num_new_tokens
            case Pooling.LAST:
                return int(self.completes)


@dataclass(frozen=True, slots=True)
class Step:
    sequences: tuple[ScheduledSequence, ...]

    @property
    def num_tokens(self) -> int:
        return sum(s.num_new_tokens + len(s.draft_token_ids) for s in self.sequences)


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """1 + accepted tokens, sampled from the target at consecutive output positions; empty where nothing is sampled."""

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()  # one per token where asked for, else empty
    pooled: tuple[float, ...] = ()  # the sum of `num_pooled` hidden states, as the LM head would get them


@dataclass(frozen=True, slots=True)
class StepResult:
    """One entry per scheduled sequence, in the step's order."""

    sampled: tuple[SampledTokens, ...]


def check_result(step: Step, result: StepResult) -> None:
    """ValueError unless the result answers the step: so many entries, and of each as many tokens as may be."""
    if len(result.sampled) != len(step.sequences):
        raise ValueError(f"{len(result.sampled)} results for a step of {len(step.sequences)} sequences")
    for scheduled, sampled in zip(step.sequences, result.sampled, strict=True):
        count, most = len(sampled.token_ids), 1 + len(scheduled.draft_token_ids)
        if not 1 <= count <= most if scheduled.samples else count:
            raise ValueError(f"{count} tokens sampled of {scheduled.sequence.request_id}, at most {most} may be")
        if bool(sampled.pooled) != bool(scheduled.num_pooled):
            raise ValueError(f"{len(sampled.pooled)} numbers pooled of {scheduled.sequence.request_id}")


@dataclass(frozen=True, slots=True)
class SequenceOutput:
    """What one step added to one sequence, cut after the token that ends it."""

    sequence: Sequence
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    embedding: tuple[float, ...] = ()


class DeviceError(RuntimeError):
    """Raised by a runner whose device can't go on: every request fails and the process should end.

    Any other exception from a runner costs only the requests that cause it.
    """
