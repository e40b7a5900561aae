"""What runs in a step: budget, order, chunks, ageing, preemption, drafts."""

from __future__ import annotations

import pytest

from forebay_runtime.request import FinishReason
from forebay_runtime.scheduling.step import SampledTokens, StepResult, check_result

from .scene import Scene


def test_prompts_share_the_budget_in_chunks() -> None:
    scene = Scene(budget=16)
    scene.add("a", 10)
    scene.add("b", 10)
    assert scene.step() == {"a": 10, "b": 6}
    assert scene.step() == {"a": 1, "b": 4}
    assert scene.step() == {"a": 1, "b": 1}


def test_a_long_prompt_leaves_every_decode_its_token() -> None:
    scene = Scene(budget=16)
    scene.add("a", 3)
    scene.add("b", 4)
    scene.step()
    scene.add("c", 100)
    for _ in range(7):
        assert scene.step() == {"a": 1, "b": 1, "c": 14}
    assert scene.step() == {"a": 1, "b": 1, "c": 2}


def test_a_short_prompt_overtakes_a_long_one_that_is_half_run() -> None:
    scene = Scene(budget=16)
    scene.add("a", 100)
    assert scene.step() == {"a": 16}
    scene.add("b", 5)
    assert scene.step() == {"b": 5, "a": 11}


def test_a_long_prompt_is_overtaken_only_until_its_own_length_in_work_is_done() -> None:
    scene = Scene(budget=16, blocks=1000, seqs=16, waiting=1000)
    scene.add("Z", 100)
    done = 0
    for i in range(20):
        for j in range(2):  # as much work as the budget holds comes with every step
            scene.add(chr(0x4E00 + 2 * i + j), 8, max_tokens=1)
        step = scene.step()
        done += sum(step.values())
        if "Z" in step:
            break
    assert 80 <= done <= 116


def test_priority_goes_before_length_and_arrival() -> None:
    scene = Scene(budget=4)
    scene.add("a", 4, max_tokens=1)
    scene.add("b", 8, max_tokens=1, priority=-1)
    scene.add("c", 4, max_tokens=1, priority=-2)
    assert [scene.step() for _ in range(4)] == [{"c": 4}, {"b": 4}, {"b": 4}, {"a": 4}]


def test_the_least_priority_gives_its_blocks_back_though_it_came_first() -> None:
    scene = Scene(blocks=5, block_size=4, budget=16)
    scene.add("a", 7, priority=1)
    assert scene.step() == {"a": 7}
    scene.add("b", 8)
    assert scene.step() == {"a": 1, "b": 8}
    assert scene.step() == {"b": 1}
    assert scene.scheduler.counters.preemptions == 1


def test_equal_prompts_are_served_in_order_of_arrival() -> None:
    scene = Scene(budget=4)
    for name in "abc":
        scene.add(name, 4, max_tokens=1)
    assert [scene.step() for _ in range(3)] == [{"a": 4}, {"b": 4}, {"c": 4}]


def test_no_more_than_max_num_seqs_run() -> None:
    scene = Scene(seqs=2)
    for name in "abc":
        scene.add(name, 2, max_tokens=2)
    assert scene.step() == {"a": 2, "b": 2}
    assert scene.step() == {"a": 1, "b": 1}
    assert scene.step() == {"c": 2}


def test_a_budget_below_max_num_seqs_bounds_the_running_too() -> None:
    scene = Scene(budget=2, seqs=8)
    for name in "abc":
        scene.add(name, 1, max_tokens=2)
    assert scene.step() == {"a": 1, "b": 1}
    assert scene.step() == {"a": 1, "b": 1}
    assert scene.step() == {"c": 1}


def test_a_prompt_waits_for_the_blocks_of_all_its_tokens_and_a_spare_one_per_running_sequence() -> None:
    scene = Scene(blocks=8, block_size=4, budget=64)
    scene.add("a", 16, max_tokens=2)
    scene.add("b", 16)
    assert scene.step() == {"a": 16}
    assert scene.step() == {"a": 1}
    assert scene.step() == {"b": 16}


def test_three_sequences_in_eight_blocks_preempt_the_last_admitted() -> None:
    scene = Scene(blocks=8, block_size=4, budget=16)
    for name in "abc":
        scene.add(name, 4)
    assert scene.step() == {"a": 4, "b": 4, "c": 4}
    for _ in range(4):
        assert scene.step() == {"a": 1, "b": 1, "c": 1}  # two blocks each
    assert scene.step() == {"a": 1, "b": 1}  # a and b need a third, there are two: c's are not needed yet
    assert scene.scheduler.counters.preemptions == 1
    assert (scene.scheduler.num_running, scene.scheduler.num_waiting) == (2, 1)


def test_a_preempted_sequence_comes_back_before_newcomers_and_runs_all_its_tokens_again() -> None:
    scene = Scene(blocks=8, block_size=4, budget=32)
    scene.add("a", 15, max_tokens=8)
    scene.step()
    b = scene.add("b", 8)
    scene.step()
    while not scene.scheduler.counters.preemptions:
        scene.step()
    scene.add("c", 2)
    num_tokens = b.num_tokens
    while "b" not in (step := scene.step()):
        assert "c" not in step
    assert step["b"] == num_tokens
    assert b.num_output_tokens == num_tokens - 8 + 1


def test_the_sequence_admitted_first_is_never_preempted() -> None:
    scene = Scene(blocks=4, block_size=4, budget=16, context=16)
    for name in "abc":
        scene.add(name, 3)
    order = []
    while scene.scheduler.has_work:
        assert scene.step()
        order += [o.sequence.request_id for o in scene.outputs if o.finish_reason]
    assert order == ["a", "b", "c"]


def test_a_sequence_that_fills_the_pool_alone_ends_with_length() -> None:
    scene = Scene(blocks=2, block_size=4, budget=16, context=1000)
    a = scene.add("a", 5)
    while scene.scheduler.has_work:
        scene.step()
    assert a.num_tokens == 8
    assert scene.outputs[0].finish_reason is FinishReason.LENGTH


def test_drafts_run_with_the_token_before_them_and_accepted_ones_advance() -> None:
    scene = Scene(budget=16)
    a = scene.add("a", 6)
    scene.step()
    step = scene.schedule({"a": [7, 8, 9]})
    assert step.sequences[0].draft_token_ids == (7, 8, 9)
    assert step.num_tokens == 4
    scene.scheduler.update(step, StepResult((SampledTokens((7, 8, 5)),)))
    assert a.output_token_ids == [0, 7, 8, 5]
    assert a.num_computed_tokens == 9
    assert (scene.scheduler.counters.draft_tokens, scene.scheduler.counters.accepted_tokens) == (3, 2)


def test_drafts_get_only_what_prompts_leave() -> None:
    scene = Scene(budget=16)
    scene.add("a", 6)
    scene.step()
    scene.add("b", 13)
    step = scene.schedule({"a": [7, 8, 9]})
    assert [(s.sequence.request_id, s.num_new_tokens, len(s.draft_token_ids)) for s in step.sequences] == [
        ("a", 1, 2),
        ("b", 13, 0),
    ]


@pytest.mark.parametrize(("max_tokens", "room"), [(100, 3), (4, 2), (3, 1), (2, 0)])
def test_drafts_never_reach_beyond_max_tokens(max_tokens: int, room: int) -> None:
    scene = Scene(budget=16)
    scene.add("a", 6, max_tokens=max_tokens)
    scene.step()
    assert len(scene.schedule({"a": [7, 8, 9]}).sequences[0].draft_token_ids) == room


def test_drafts_take_free_blocks_but_preempt_nobody() -> None:
    scene = Scene(blocks=4, block_size=4, budget=32)
    scene.add("a", 4)
    scene.add("b", 5)
    scene.step()
    step = scene.schedule({"a": [7] * 9, "b": [7] * 9})
    assert [len(s.draft_token_ids) for s in step.sequences] == [3, 2]
    assert not scene.scheduler.counters.preemptions


def test_drafts_for_a_sequence_that_is_still_in_its_prompt_are_left_out() -> None:
    scene = Scene(budget=4)
    scene.add("a", 10)
    scene.step()
    assert scene.schedule({"a": [1], "unknown": [2]}).sequences[0].draft_token_ids == ()


@pytest.mark.parametrize(
    ("sampled", "said"),
    [
        ((), "0 results for a step of 2"),
        ((SampledTokens(), SampledTokens()), "0 tokens sampled of b, at most 1"),
        ((SampledTokens((1, 2)), SampledTokens()), "2 tokens sampled of b, at most 1"),
        ((SampledTokens((1,)), SampledTokens((1,))), "1 tokens sampled of a"),
    ],
)
def test_a_result_that_does_not_answer_the_step_is_an_error(sampled: tuple[SampledTokens, ...], said: str) -> None:
    scene = Scene(budget=16)
    scene.add("a", 30)
    scene.add("b", 3)
    with pytest.raises(ValueError, match=said):
        check_result(scene.schedule(), StepResult(sampled))


def test_abort_frees_the_blocks_of_running_and_waiting_at_once() -> None:
    scene = Scene(blocks=8, seqs=1)
    scene.add("a", 8)
    scene.add("b", 8)
    scene.step()
    assert scene.scheduler.kv_cache_usage == 2 / 8
    assert scene.scheduler.abort("a")
    assert scene.scheduler.abort("b")
    assert not scene.scheduler.abort("a")
    scene.scheduler.check_integrity()
    assert scene.scheduler.kv_cache_usage == 0
    assert not scene.scheduler.has_work
    assert scene.step() == {}


def test_a_sequence_aborted_while_its_step_runs_gives_no_output() -> None:
    scene = Scene()
    scene.add("a", 3)
    scene.add("b", 3)
    step = scene.schedule()
    scene.scheduler.abort("a")
    outputs = scene.scheduler.update(step, StepResult((SampledTokens((1,)), SampledTokens((2,)))))
    assert [o.sequence.request_id for o in outputs] == ["b"]
    scene.scheduler.check_integrity()
