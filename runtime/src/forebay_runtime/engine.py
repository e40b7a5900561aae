"""The engine: requests in, outputs out, one step at a time. No torch, no asyncio, no HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Tokens
from dataclasses import dataclass
from typing import Protocol

from forebay_runtime.drafting import Drafter
from forebay_runtime.request import FinishReason, Request, RequestError, RequestOutput
from forebay_runtime.scheduling.retry_after import FinishRate
from forebay_runtime.scheduling.scheduler import NO_DRAFTS, Scheduler
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import (
    DeviceError,
    SequenceOutput,
    Step,
    StepResult,
    check_result,
)


class Runner(Protocol):
    def execute(self, step: Step) -> StepResult:
        """Computes the step's KV and samples. Has no effect that running the same step again would not undo.

        DeviceError: the device can't go on. Any other exception: some request of the step can't be computed.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot for metrics and health. Counters only grow; prefix counts are in tokens."""

    num_running: int
    num_waiting: int
    kv_cache_usage: float  # 0 to 1, blocks held by running sequences; cached ones count as free
    prefix_cache_queries: int
    prefix_cache_hits: int
    num_preemptions: int
    num_draft_tokens: int
    num_accepted_tokens: int
    num_steps: int
    heartbeat: float  # clock() when the last step ended, or when work came to an idle engine
    broken: str | None  # why the device can't go on


class Engine:
    """Not thread-safe: one thread calls `add`, `abort` and `step`. `stats` and `has_work` may be read from any."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        drafter: Drafter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._drafter = drafter
        self._clock = clock
        self._heartbeat = clock()
        self._num_steps = 0
        self._finish_rate = FinishRate()
        self._broken: str | None = None

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def add(self, request: Request) -> None:
        """Queues a request. RequestError: 400 it can never run, 429 too many are here, 503 the device is broken."""
        if self._broken is not None:
            raise RequestError(f"The device is broken: {self._broken}", status=503, code="device_broken")
        now = self._clock()
        was_idle = not self._scheduler.has_work
        self._scheduler.add(request, self._finish_rate.seconds_for(self._scheduler.num_waiting, now))
        if was_idle:
            self._heartbeat = now

    def abort(self, request_id: str) -> bool:
        """Frees all that the request holds, at once; no further output comes of it. False if it isn't here."""
        self._forget(request_id)
        return self._scheduler.abort(request_id)

    def step(self) -> list[RequestOutput]:
        """Runs one step; [] at once if there is no work. Each request's last output has its finish_reason.

        A request that the runner can't compute ends with ERROR while the others go on. After a DeviceError all end
        with ERROR, `stats().broken` says why and nothing is admitted any more.
        """
        step = self._scheduler.schedule(self._drafts())
        if not step.sequences:
            return []
        now = self._clock()
        for scheduled in step.sequences:
            if scheduled.sequence.queue_seconds is None:
                scheduled.sequence.queue_seconds = now - scheduled.sequence.request.arrival
        try:
            outputs = self._execute(step)
        except DeviceError as error:
            self._broken = f"{type(error).__name__}: {error}"
            return [self._fail(s, self._broken) for s in self._scheduler.sequences()]
        self._num_steps += 1
        self._heartbeat = self._clock()
        if self._drafter is not None:
            self._drafter.observe_step(step.num_tokens, self._heartbeat - now)
        return outputs

    def stats(self) -> EngineStats:
        scheduler, counters = self._scheduler, self._scheduler.counters
        return EngineStats(
            num_running=scheduler.num_running,
            num_waiting=scheduler.num_waiting,
            kv_cache_usage=scheduler.kv_cache_usage,
            prefix_cache_queries=counters.prefix_queries,
            prefix_cache_hits=counters.prefix_hits,
            num_preemptions=counters.preemptions,
            num_draft_tokens=counters.draft_tokens,
            num_accepted_tokens=counters.accepted_tokens,
            num_steps=self._num_steps,
            heartbeat=self._heartbeat,
            broken=self._broken,
        )

    def check_integrity(self) -> None:
        self._scheduler.check_integrity()

    def _drafts(self) -> Mapping[str, Tokens[int]]:
        if self._drafter is None:
            return NO_DRAFTS
        sequences = self._scheduler.decoding()
        drafts = self._drafter.propose(sequences)
        return {s.request_id: draft for s, draft in zip(sequences, drafts, strict=True) if draft}

    def _execute(self, step: Step) -> list[RequestOutput]:
        """Executes and takes in a step; on an exception its halves, so that only what can't be computed fails."""
        try:
            result = self._runner.execute(step)
            check_result(step, result)
        except DeviceError:
            raise
        except Exception as error:
            if len(step.sequences) == 1:
                return [self._fail(step.sequences[0].sequence, f"{type(error).__name__}: {error}")]
            half = len(step.sequences) // 2
            return self._execute(Step(step.sequences[:half])) + self._execute(Step(step.sequences[half:]))
        if self._drafter is not None:
            for scheduled, sampled in zip(step.sequences, result.sampled, strict=True):
                if num_drafts := len(scheduled.draft_token_ids):
                    self._drafter.observe(scheduled.sequence, num_drafts, len(sampled.token_ids) - 1)
        return [self._output(output) for output in self._scheduler.update(step, result)]

    def _output(self, output: SequenceOutput) -> RequestOutput:
        sequence = output.sequence
        if output.finish_reason is not None:
            self._forget(sequence.request_id)
            self._finish_rate.add(self._clock())
        return RequestOutput(
            sequence.request_id,
            output.token_ids,
            output.logprobs,
            output.finish_reason,
            sequence.num_cached_tokens,
            queue_seconds=sequence.queue_seconds or 0.0,
            embedding=output.embedding,
        )

    def _fail(self, sequence: Sequence, error: str) -> RequestOutput:
        self.abort(sequence.request_id)
        return RequestOutput(sequence.request_id, (), (), FinishReason.ERROR, sequence.num_cached_tokens, error)

    def _forget(self, request_id: str) -> None:
        if self._drafter is not None:
            self._drafter.forget(request_id)
