"""Decides what runs next: which sequences, how many tokens of each, in which blocks.

One rule: bring num_computed_tokens up to num_tokens. One step hands out at most max_num_batched_tokens, in this order:
    1. running sequences with one token left (decodes, in other words): one token each, so that no prompt stalls them
       for more than the one chunk that shares their step. Where blocks run out, of those with the least priority the
       sequence admitted last gives up its own and waits again (preemption by recompute); of those with the highest the
       one admitted first never does, so something always ends.
    2. prompts, half-run and waiting together, by deadline (waiting.py), in chunks. A waiting one is admitted when
       every block of its known tokens can be had and one more for each running sequence. One whose next block is
       being computed for another in the same step waits for that: n answers to one prompt compute it once.
    3. drafts, with what is left: a prompt token is always of use, a draft only perhaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Tokens

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.request import FinishReason, Pooling, Request
from forebay_runtime.scheduling.admission import check_fits, check_room
from forebay_runtime.scheduling.counters import SchedulerCounters
from forebay_runtime.scheduling.finish import append_token, stop_ids
from forebay_runtime.scheduling.kv_blocks import KVBlocks
from forebay_runtime.scheduling.sequence import Sequence, SequenceStatus
from forebay_runtime.scheduling.step import SampledTokens, ScheduledSequence, SequenceOutput, Step, StepResult
from forebay_runtime.scheduling.waiting import WaitingQueue, order

NO_DRAFTS: Mapping[str, Tokens[int]] = {}


class Scheduler:
    """Owns every sequence and block. Not thread-safe: one thread calls everything."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.counters = SchedulerCounters()
        self._block_size = config.block_size
        self._blocks = KVBlocks(config.num_blocks, config.block_size, prefix_caching=config.prefix_caching)
        # More running sequences than tokens in a step would leave some of them without theirs.
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)
        self._context = min(config.max_model_len, config.num_blocks * config.block_size)
        self._sequences: dict[str, Sequence] = {}
        self._waiting = WaitingQueue()
        self._running: dict[str, Sequence] = {}  # in order of admission
        self._work = 0  # tokens handed out so far

    @property
    def has_work(self) -> bool:
        return bool(self._sequences)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def kv_cache_usage(self) -> float:
        return self._blocks.usage

    def add(self, request: Request, retry_after: int = 1) -> Sequence:
        """Queues a request. RequestError 400 where it can never run, 429 with `retry_after` where the queue is full."""
        if request.request_id in self._sequences:
            raise ValueError(f"request {request.request_id} is here already")
        check_fits(request, self.config)
        check_room(len(self._sequences), self.config, retry_after)
        prompt = request.prompt_token_ids
        sequence = Sequence(
            request,
            list(prompt),
            len(prompt),
            max_num_tokens=min(self._context, len(prompt) + request.sampling.max_tokens),
            stop_ids=stop_ids(request),
            arrival_work=self._work,
        )
        num_cached = len(self._blocks.match(sequence)) * self._block_size
        sequence.deadline = self._work + len(prompt) - num_cached
        self._sequences[request.request_id] = sequence
        self._waiting.add(sequence)
        return sequence

    def abort(self, request_id: str) -> bool:
        """Forgets a request and frees its blocks at once; False if it isn't here. Nothing more comes of it."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return False
        self._finish(sequence)
        return True

    def sequences(self) -> list[Sequence]:
        """All that run and wait, in order of arrival."""
        return list(self._sequences.values())

    def decoding(self) -> list[Sequence]:
        """The sequences that may be given drafts in the next step."""
        return [
            s
            for s in self._running.values()
            if len(s.token_ids) - s.num_computed_tokens == 1 and s.request.pooling is None
        ]

    def schedule(self, drafts: Mapping[str, Tokens[int]] = NO_DRAFTS) -> Step:
        """The next step; empty only if there is no work. `drafts`, by request id, are cut to what there is room for."""
        decodes, partial = self._grow_running()
        budget = self.config.max_num_batched_tokens - len(decodes)
        prompts = self._schedule_prompts(partial, budget)
        budget -= sum(p.num_new_tokens for p in prompts)
        scheduled = []
        for sequence in decodes:
            draft = drafts.get(sequence.request_id)
            tokens = self._blocks.draft_room(sequence, draft, budget) if draft and budget else ()
            budget -= len(tokens)
            scheduled.append(ScheduledSequence(sequence, 1, tokens))
        self._work += self.config.max_num_batched_tokens - budget
        return Step((*scheduled, *prompts))

    def update(self, step: Step, result: StepResult) -> list[SequenceOutput]:
        """Takes in a result that answers the step (step.check_result). Sequences aborted since then are passed over."""
        outputs = []
        for scheduled, sampled in zip(step.sequences, result.sampled, strict=True):
            if scheduled.sequence.status is SequenceStatus.RUNNING:
                output = self._advance(scheduled, sampled)
                if output is not None:
                    outputs.append(output)
        return outputs

    def check_integrity(self) -> None:
        """AssertionError unless every count, table and queue agrees with the others. For tests and when idle."""
        waiting, running = list(self._waiting), list(self._running.values())
        self._blocks.check_integrity(running)
        assert {s.request_id for s in waiting} | set(self._running) == set(self._sequences)
        assert len(waiting) + len(running) == len(self._sequences)
        assert len(running) <= self._max_running
        assert waiting == sorted(waiting, key=order)
        for s in waiting:
            assert s.status is SequenceStatus.WAITING
            assert not s.block_table
            assert s.num_computed_tokens == s.num_published_blocks == 0
        for s in running:
            assert s.status is SequenceStatus.RUNNING
            assert s.num_computed_tokens < s.num_tokens < s.max_num_tokens

    def _grow_running(self) -> tuple[list[Sequence], list[Sequence]]:
        """Running sequences (one token left, more left), each with blocks for every known token."""
        decodes: list[Sequence] = []
        partial: list[Sequence] = []
        for sequence in list(self._running.values()):
            if sequence.status is not SequenceStatus.RUNNING:
                continue  # preempted by an earlier one of this loop
            left = len(sequence.token_ids) - sequence.num_computed_tokens
            if left > 1:
                partial.append(sequence)
            elif self._grow(sequence):
                decodes.append(sequence)
        running = SequenceStatus.RUNNING  # a later one of higher priority may have preempted an earlier one
        return [s for s in decodes if s.status is running], [s for s in partial if s.status is running]

    def _grow(self, sequence: Sequence) -> bool:
        """Covers the last known token, preempting where it must; False if that took the sequence itself."""
        while not self._blocks.cover(sequence):
            victim = max(reversed(self._running.values()), key=lambda s: s.request.priority)
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Back to the queue without KV. It has waited once: from now on its length doesn't count against it."""
        self._blocks.release(sequence)
        sequence.num_computed_tokens = sequence.num_published_blocks = 0
        sequence.pooled.clear()
        sequence.status = SequenceStatus.WAITING
        sequence.deadline = sequence.arrival_work
        del self._running[sequence.request_id]
        self._waiting.add(sequence)
        self.counters.preemptions += 1

    def _schedule_prompts(self, partial: list[Sequence], budget: int) -> list[ScheduledSequence]:
        candidates = [*partial, *self._waiting.first(self._max_running - len(self._running))]
        candidates.sort(key=order)
        may_admit = True
        scheduled: list[ScheduledSequence] = []
        coming: set[bytes] = set()  # keys of the blocks that this step fills
        for sequence in candidates:
            if not budget:
                break
            if sequence.status is SequenceStatus.WAITING:
                if not may_admit:
                    continue
                cached = self._blocks.match(sequence)
                if coming and _next_key(sequence, len(cached)) in coming:
                    continue  # one of this step computes its next block: in the next step that is a hit
                may_admit = self._admit(sequence, cached)
                if not may_admit:
                    continue
            num_new = min(budget, len(sequence.token_ids) - sequence.num_computed_tokens)
            budget -= num_new
            scheduled.append(ScheduledSequence(sequence, num_new))
            first, end = sequence.num_computed_tokens, sequence.num_computed_tokens + num_new
            coming.update(sequence.block_keys[first // self._block_size : end // self._block_size])
        return scheduled

    def _admit(self, sequence: Sequence, cached: list[int]) -> bool:
        """Lets a waiting sequence run, if there is room for it and one block more for each that runs."""
        if not self._blocks.admit(sequence, cached, spare=len(self._running)):
            return False
        self._waiting.remove(sequence)
        self._running[sequence.request_id] = sequence
        sequence.status = SequenceStatus.RUNNING
        sequence.num_admissions += 1
        if sequence.num_admissions == 1 and self._blocks.caches_prefixes:
            sequence.num_cached_tokens = sequence.num_computed_tokens
            self.counters.prefix_queries += sequence.num_tokens
            self.counters.prefix_hits += sequence.num_cached_tokens
        return True

    def _advance(self, scheduled: ScheduledSequence, sampled: SampledTokens) -> SequenceOutput | None:
        sequence, num_drafts = scheduled.sequence, len(scheduled.draft_token_ids)
        if not scheduled.samples:
            return self._compute(scheduled, sampled)
        num_accepted = len(sampled.token_ids) - 1
        self.counters.draft_tokens += num_drafts
        self.counters.accepted_tokens += num_accepted
        reason: FinishReason | None = None
        count = 0
        while reason is None and count <= num_accepted:
            reason = append_token(sequence, sampled.token_ids[count])
            count += 1
        sequence.num_computed_tokens = len(sequence.token_ids) - 1  # the last one's KV is the next step's
        self._blocks.publish(sequence)
        if reason is not None:
            self._finish(sequence)
        return SequenceOutput(sequence, sampled.token_ids[:count], sampled.logprobs[:count], reason)

    def _compute(self, scheduled: ScheduledSequence, sampled: SampledTokens) -> SequenceOutput | None:
        """Takes in tokens after which none is sampled. With its last one a prompt that is to be pooled has ended."""
        sequence, ends = scheduled.sequence, scheduled.completes
        sequence.num_computed_tokens += scheduled.num_new_tokens
        self._blocks.publish(sequence)
        if sampled.pooled:
            before = sequence.pooled or [0.0] * len(sampled.pooled)
            sequence.pooled = [a + b for a, b in zip(before, sampled.pooled, strict=True)]
        if not ends:
            return None
        count = sequence.num_tokens if sequence.request.pooling is Pooling.MEAN else 1
        self._finish(sequence)
        embedding = tuple(x / count for x in sequence.pooled)
        return SequenceOutput(sequence, (), finish_reason=FinishReason.STOP, embedding=embedding)

    def _finish(self, sequence: Sequence) -> None:
        if sequence.status is SequenceStatus.RUNNING:
            self._blocks.release(sequence)
            del self._running[sequence.request_id]
        else:
            self._waiting.remove(sequence)
        sequence.status = SequenceStatus.FINISHED
        del self._sequences[sequence.request_id]


def _next_key(sequence: Sequence, num_blocks: int) -> bytes | None:
    """Key of the first block that is not among the first `num_blocks`; None where no full block is left."""
    return sequence.block_keys[num_blocks] if num_blocks < len(sequence.block_keys) else None
