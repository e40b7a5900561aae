"""Which prefixes are found, by whom, and what is never published."""

from __future__ import annotations

from forebay_runtime.scheduling.prefix_cache import block_key, root_key
from forebay_runtime.scheduling.step import SampledTokens, StepResult

from .scene import Scene

SHARED = list(range(12))


def warm(**options: int) -> Scene:
    """A scene whose cache holds the three blocks of SHARED, and nobody running."""
    scene = Scene(prefix_caching=True, budget=64, **options)
    scene.add("w", [*SHARED, 99], max_tokens=1)
    scene.step()
    return scene


def test_a_known_prefix_is_not_computed_again() -> None:
    scene = warm()
    b = scene.add("b", [*SHARED, 50, 51])
    assert scene.step() == {"b": 2}
    assert b.num_cached_tokens == 12
    assert (scene.scheduler.counters.prefix_queries, scene.scheduler.counters.prefix_hits) == (13 + 14, 12)


def test_a_prompt_known_to_its_end_still_computes_its_last_token() -> None:
    scene = warm()
    b = scene.add("b", SHARED)
    assert scene.step() == {"b": 4}
    assert b.num_cached_tokens == 8
    assert b.num_output_tokens == 1


def test_a_prefix_ends_at_the_first_difference() -> None:
    scene = warm()
    b = scene.add("b", [*SHARED[:5], 77, *SHARED[6:], 99])
    scene.step()
    assert b.num_cached_tokens == 4


def test_another_salt_finds_nothing() -> None:
    scene = warm()
    b = scene.add("b", [*SHARED, 50], salt="other")
    scene.step()
    assert b.num_cached_tokens == 0


def test_running_sequences_share_blocks() -> None:
    scene = Scene(prefix_caching=True, budget=64)
    a = scene.add("a", [*SHARED, 1])
    scene.step()
    b = scene.add("b", [*SHARED, 2])
    scene.step()
    assert a.block_table[:3] == b.block_table[:3]
    assert a.block_table[3] != b.block_table[3]


def test_answers_to_one_prompt_compute_it_once() -> None:
    scene = Scene(prefix_caching=True, budget=64)
    for name in "abc":
        scene.add(name, [*SHARED, 1])
    scene.add("d", 5)
    assert scene.step() == {"d": 5, "a": 13}
    assert scene.step() == {"d": 1, "a": 1, "b": 1, "c": 1}


def test_output_is_found_by_the_next_turn() -> None:
    scene = Scene(prefix_caching=True, budget=64)
    scene.add("a", [1, 2, 3], max_tokens=6)
    while scene.scheduler.has_work:
        scene.step()
    b = scene.add("b", [1, 2, 3, 0, 0, 0, 0, 0, 0, 7])
    scene.step()
    assert b.num_cached_tokens == 8


def test_a_block_with_an_unverified_draft_is_not_published() -> None:
    scene = Scene(prefix_caching=True, budget=64)
    a = scene.add("a", [1, 2])
    scene.step()
    step = scene.schedule({"a": [8, 8, 8]})
    assert scene.scheduler.num_waiting == 0
    b = scene.add("b", [1, 2, 0, 8, 5])
    scene.scheduler.update(step, StepResult((SampledTokens((4,)),)))
    assert a.num_published_blocks == 0
    scene.step()
    assert b.num_cached_tokens == 0


def test_a_block_is_published_when_accepted_drafts_fill_it() -> None:
    scene = Scene(prefix_caching=True, budget=64)
    scene.add("a", [1, 2])
    scene.step()
    scene.step(drafts={"a": [8]}, tokens={"a": [8, 9]})
    b = scene.add("b", [1, 2, 0, 8, 5])
    assert scene.step()["b"] == 1
    assert b.num_cached_tokens == 4


def test_a_preempted_sequence_counts_its_prompt_once_and_keeps_its_cached_number() -> None:
    scene = Scene(blocks=6, block_size=4, budget=32, prefix_caching=True)
    scene.add("a", 7, max_tokens=12)
    scene.step()
    b = scene.add("b", 7, max_tokens=12)
    while scene.scheduler.has_work:
        scene.step()
    assert scene.scheduler.counters.preemptions
    assert b.num_cached_tokens == 0
    assert scene.scheduler.counters.prefix_queries == 14


def test_eviction_forgets_the_prefix_and_the_text_of_the_pool_stays_consistent() -> None:
    scene = warm(blocks=5)
    scene.add("x", 16, max_tokens=1)
    scene.step()
    b = scene.add("b", [*SHARED, 50])
    scene.step()
    assert b.num_cached_tokens < 12


def test_keys_tell_apart_parent_tokens_salt_and_adapter() -> None:
    roots = {root_key("ab", ""), root_key("a", "b"), root_key("", "ab"), root_key("", "")}
    assert len(roots) == 4
    keys = {block_key(root, tokens) for root in roots for tokens in ([1, 2], [2, 1], [1], [1, 2, 0])}
    assert len(keys) == 16
