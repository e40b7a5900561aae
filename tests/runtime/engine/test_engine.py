"""Requests in, outputs out: where an answer ends, what fails alone, what the snapshot says."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Tokens
from typing import Any

import pytest

from forebay_runtime.request import FinishReason, RequestError, TokenLogprobs
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import DeviceError, SampledTokens, ScheduledSequence, Step, StepResult

from .build import EOS, config, engine, request, run


class Scripted:
    """Samples whatever `script` gives, drafts accepted as far as they agree; raises what `fault` raises."""

    def __init__(self, script: list[int], fault: Callable[[Step], None] = lambda step: None) -> None:
        self._script, self._fault = script, fault
        self.num_steps = 0

    def execute(self, step: Step) -> StepResult:
        self.num_steps += 1
        self._fault(step)
        return StepResult(tuple(self._sample(s) for s in step.sequences))

    def _sample(self, scheduled: ScheduledSequence) -> SampledTokens:
        if not scheduled.samples:
            return SampledTokens()
        first = scheduled.sequence.num_output_tokens
        count = 1
        for draft in scheduled.draft_token_ids:
            if draft != self._script[first + count - 1]:
                break
            count += 1
        tokens = tuple(self._script[first : first + count])
        return SampledTokens(tokens, tuple(TokenLogprobs(-float(t)) for t in tokens))


class Oracle:
    """Drafts the script itself, so that everything is accepted."""

    def __init__(self, script: list[int], count: int = 3) -> None:
        self._script, self._count = script, count
        self.observed: list[tuple[str, int, int]] = []
        self.forgotten: list[str] = []

    def propose(self, sequences: Tokens[Sequence]) -> list[list[int]]:
        return [self._script[s.num_output_tokens :][: self._count] for s in sequences]

    def observe(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        self.observed.append((sequence.request_id, num_drafts, num_accepted))

    def observe_step(self, num_tokens: int, seconds: float) -> None: ...

    def forget(self, request_id: str) -> None:
        self.forgotten.append(request_id)


@pytest.mark.parametrize(
    ("sampling", "tokens", "reason"),
    [
        ({}, [1, 2, 3, EOS], FinishReason.STOP),
        ({"stop_token_ids": frozenset({2})}, [1, 2], FinishReason.STOP),
        ({"max_tokens": 3}, [1, 2, 3], FinishReason.LENGTH),
        ({"max_tokens": 4}, [1, 2, 3, EOS], FinishReason.STOP),
        ({"ignore_eos": True, "max_tokens": 6}, [1, 2, 3, EOS, 5, 6], FinishReason.LENGTH),
        ({"ignore_eos": True, "stop_token_ids": frozenset({EOS})}, [1, 2, 3, EOS], FinishReason.STOP),
        ({"min_tokens": 4, "max_tokens": 8}, [1, 2, 3, EOS, 5, 6, 7, EOS], FinishReason.STOP),
        ({"min_tokens": 3, "max_tokens": 8}, [1, 2, 3, EOS], FinishReason.STOP),
    ],
)
@pytest.mark.parametrize("speculating", [False, True])
def test_nothing_comes_after_the_token_that_ends_it(
    sampling: dict[str, Any], tokens: list[int], reason: FinishReason, speculating: bool
) -> None:
    script = [1, 2, 3, EOS, 5, 6, 7, EOS, 9]
    made = engine(drafter=Oracle(script) if speculating else None, runner=Scripted(script))
    output = run(made, request("a", [0, 0], **sampling))["a"]
    assert list(output.token_ids) == tokens
    assert [p.logprob for p in output.logprobs] == [-float(t) for t in tokens]
    assert output.finish_reason is reason
    assert made.stats().kv_cache_usage == 0


def test_the_context_ends_an_answer_with_length() -> None:
    output = run(engine(runner=Scripted([1] * 300)), request("a", [0] * 190, max_tokens=100))["a"]
    assert (len(output.token_ids), output.finish_reason) == (10, FinishReason.LENGTH)


def test_drafts_are_told_to_the_drafter_and_counted() -> None:
    script = [1, 2, 3, 1, 2, 3, 1, 2, 3]
    oracle = Oracle(script)
    made = engine(drafter=oracle, runner=Scripted(script))
    run(made, request("a", [0], max_tokens=6))
    assert oracle.observed == [("a", 3, 3)]
    assert oracle.forgotten == ["a"]
    assert (made.stats().num_draft_tokens, made.stats().num_accepted_tokens) == (3, 3)


def test_abort_ends_all_output_and_frees_everything() -> None:
    oracle = Oracle([1] * 100)
    made = engine(drafter=oracle, runner=Scripted([1] * 100))
    made.add(request("a", [0, 0]))
    made.step()
    assert made.abort("a")
    assert made.step() == []
    assert not made.has_work
    assert not made.abort("a")
    assert made.stats().kv_cache_usage == 0
    assert "a" in oracle.forgotten


def poisoned(name: str) -> Callable[[Step], None]:
    def fault(step: Step) -> None:
        if any(s.sequence.request_id == name for s in step.sequences):
            raise ValueError("token 99 is not in the vocabulary")

    return fault


def test_a_request_that_cannot_be_computed_fails_alone() -> None:
    made = engine(runner=Scripted([1] * 100, poisoned("d")))
    got = run(made, *(request(name, [0, 0], max_tokens=5) for name in "abcdefg"))
    assert {name for name, o in got.items() if o.finish_reason is FinishReason.ERROR} == {"d"}
    assert got["d"].error == "ValueError: token 99 is not in the vocabulary"
    assert all(o.token_ids == (1,) * 5 for name, o in got.items() if name != "d")
    assert run(made, request("h", [0]))["h"].finish_reason is FinishReason.LENGTH


def test_a_result_that_does_not_answer_its_step_fails_only_the_request_it_is_wrong_for() -> None:
    class Forgetful(Scripted):
        def execute(self, step: Step) -> StepResult:
            result = super().execute(step)
            wrong = [s.sequence.request_id == "b" for s in step.sequences]
            return StepResult(tuple(SampledTokens() if w else s for w, s in zip(wrong, result.sampled, strict=True)))

    got = run(engine(runner=Forgetful([1] * 100)), *(request(name, [0], max_tokens=5) for name in "abc"))
    assert [got[name].finish_reason for name in "abc"] == [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.LENGTH]
    assert "0 tokens sampled of b" in got["b"].error


def test_a_broken_device_fails_everything_and_admits_nothing_more() -> None:
    def fault(step: Step) -> None:
        raise DeviceError("an illegal memory access was encountered")

    made = engine(config(seqs=1), runner=Scripted([1] * 100, fault))
    for name in "ab":
        made.add(request(name, [0]))
    outputs = made.step()
    assert [(o.request_id, o.finish_reason) for o in outputs] == [("a", FinishReason.ERROR), ("b", FinishReason.ERROR)]
    assert "illegal memory access" in outputs[0].error
    assert not made.has_work
    assert made.stats().broken
    with pytest.raises(RequestError) as caught:
        made.add(request("c", [0]))
    assert caught.value.status == 503


def test_the_snapshot_tells_what_runs_and_waits() -> None:
    made = engine(config(seqs=2, blocks=10))
    for name in "abc":
        made.add(request(name, [1, 2, 3], ignore_eos=True))
    assert (made.stats().num_running, made.stats().num_waiting) == (0, 3)
    made.step()
    stats = made.stats()
    assert (stats.num_running, stats.num_waiting, stats.num_steps) == (2, 1, 1)
    assert stats.kv_cache_usage == pytest.approx(0.2)


def test_the_heart_beats_with_each_step_and_when_work_comes_to_an_idle_engine() -> None:
    now = [100.0]
    made = engine(clock=lambda: now[0])
    now[0] = 5000.0
    made.add(request("a", [0], ignore_eos=True))
    assert made.stats().heartbeat == 5000.0
    now[0] = 5001.0
    made.add(request("b", [0]))
    assert made.stats().heartbeat == 5000.0
    made.step()
    assert made.stats().heartbeat == 5001.0


def test_queue_time_is_from_arrival_to_the_first_step_however_long_the_rest_takes() -> None:
    now = [10.0]
    made = engine(clock=lambda: now[0])
    made.add(request("a", [0], arrival=7.0, ignore_eos=True))
    assert made.step()[0].queue_seconds == 3.0
    now[0] = 20.0
    assert made.step()[0].queue_seconds == 3.0


def test_a_full_queue_tells_when_to_come_again() -> None:
    now = [0.0]
    made = engine(config(seqs=1), clock=lambda: now[0])
    for second in range(4):
        now[0] = float(second * 2)
        run(made, request("x", [0], max_tokens=1))
    for i in range(65):
        made.add(request(str(i), [0]))
    now[0] = 8.0
    with pytest.raises(RequestError) as caught:
        made.add(request("one more", [0]))
    assert (caught.value.status, caught.value.retry_after) == (429, 60)


def test_an_idle_engine_steps_for_nothing() -> None:
    runner = Scripted([1])
    assert engine(runner=runner).step() == []
    assert runner.num_steps == 0
