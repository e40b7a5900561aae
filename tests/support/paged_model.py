"""A language model without arithmetic, for the scheduler's and the engine's tests.

It keeps a KV cache in blocks as a real one does: the slot of a token holds a digest of all tokens up to it, made from
the *previous slot's* digest. What it samples is a function of the last slot, the seed and the output position. A wrong
block table, a stale draft, a block evicted too early or published too soon therefore changes the text.
"""

from __future__ import annotations

from forebay_runtime.request import TokenLogprobs
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import SampledTokens, ScheduledSequence, Step, StepResult

EMPTY = 17


class PagedModel:
    """`vocab_size` small makes the text repeat itself, which gives an n-gram drafter something to find."""

    def __init__(self, num_blocks: int, block_size: int, vocab_size: int = 5) -> None:
        self._block_size = block_size
        self._vocab_size = vocab_size
        self._slots: list[int | None] = [None] * (num_blocks * block_size)
        self.num_steps = 0

    def execute(self, step: Step) -> StepResult:
        self.num_steps += 1
        return StepResult(tuple(self._run(s) for s in step.sequences))

    def _run(self, scheduled: ScheduledSequence) -> SampledTokens:
        sequence = scheduled.sequence
        samples = scheduled.samples
        first = sequence.num_computed_tokens
        drafts = list(scheduled.draft_token_ids)
        tokens = sequence.token_ids[first : first + scheduled.num_new_tokens] + drafts
        adapter = sequence.request.adapter
        weights = None if adapter is None else adapter.weights  # a number
        states = []
        state = self._slots[self._slot(sequence, first - 1)] if first else EMPTY
        for position, token in enumerate(tokens, start=first):
            assert state is not None, f"{sequence.request_id} attends to a slot that was never written"
            state = hash((state, token) if weights is None else (state, token, weights))
            self._slots[self._slot(sequence, position)] = state
            states.append(state)
        if not samples:
            return SampledTokens(pooled=_pooled(states[len(states) - scheduled.num_pooled :]))
        sampled: list[int] = []
        for state, draft in zip(states[scheduled.num_new_tokens - 1 :], [*drafts, None], strict=True):
            sampled.append(self._sample(state, sequence, sequence.num_output_tokens + len(sampled)))
            if sampled[-1] != draft:
                break
        wanted = sequence.request.sampling.logprobs is not None
        logprobs = tuple(TokenLogprobs(-1.0 - token) for token in sampled) if wanted else ()
        return SampledTokens(tuple(sampled), logprobs)

    def _slot(self, sequence: Sequence, position: int) -> int:
        return sequence.block_table[position // self._block_size] * self._block_size + position % self._block_size

    def _sample(self, state: int, sequence: Sequence, position: int) -> int:
        sampling = sequence.request.sampling
        noise = hash((sampling.seed, position)) if sampling.temperature else 0
        barred = sampling.stop_token_ids | sequence.request.eos_token_ids if position < sampling.min_tokens else ()
        allowed = [token for token in range(self._vocab_size) if token not in barred]
        return allowed[hash((state, noise)) % len(allowed)]


def _pooled(states: list[int]) -> tuple[float, ...]:
    """Of each slot a vector of small whole numbers, so that sums are exact in any order."""
    vectors = [(float(state % 97), float(state % 89), 1.0) for state in states]
    return tuple(map(sum, zip(*vectors, strict=True)))
