"""References, eviction order and the invariants' own alarms."""

from __future__ import annotations

import pytest

from forebay_runtime.scheduling.block_pool import BlockPool


def published(pool: BlockPool, *keys: bytes) -> list[int]:
    blocks = pool.allocate(len(keys))
    for block, key in zip(blocks, keys, strict=True):
        pool.publish(block, key)
    return blocks


def test_a_shared_block_is_free_only_after_the_last_release() -> None:
    pool = BlockPool(2)
    table = pool.allocate(1)
    pool.share(table[0])
    pool.release(table)
    assert pool.num_available == 1
    pool.release(table)
    assert pool.num_available == 2
    pool.check_integrity([])


def test_asking_for_more_than_there_is_says_the_numbers() -> None:
    pool = BlockPool(2)
    with pytest.raises(ValueError, match="3 blocks asked for, 2 of 2 available"):
        pool.allocate(3)


def test_free_blocks_go_before_cached_ones() -> None:
    pool = BlockPool(3)
    pool.release(published(pool, b"x"))
    pool.allocate(2)
    assert pool.lookup(b"x") is not None


def test_tails_are_evicted_before_heads_and_old_ones_before_new() -> None:
    pool = BlockPool(4)
    old, new = published(pool, b"old head", b"old tail"), published(pool, b"new head", b"new tail")
    pool.release(old)
    pool.release(new)
    evicted = []
    for _ in range(4):
        before = {key for key in (b"old head", b"old tail", b"new head", b"new tail") if pool.lookup(key) is not None}
        pool.allocate(1)
        evicted += [key for key in before if pool.lookup(key) is None]
    assert evicted == [b"old tail", b"old head", b"new tail", b"new head"]


def test_a_hit_makes_a_cached_block_young_again() -> None:
    pool = BlockPool(2)
    a, b = published(pool, b"a"), published(pool, b"b")
    pool.release(a)
    pool.release(b)
    pool.share(a[0])
    pool.release(a)
    pool.allocate(1)
    assert pool.lookup(b"a") is not None
    assert pool.lookup(b"b") is None


def test_the_first_block_under_a_key_stays_and_the_second_is_freed_plainly() -> None:
    pool = BlockPool(2)
    first, second = published(pool, b"k"), published(pool, b"k")
    assert pool.lookup(b"k") == first[0]
    pool.release(second)
    pool.check_integrity([first])
    assert pool.num_available == 1


@pytest.mark.parametrize("tables", [[], [[0, 0]], [[0], [0]], [[1]]])
def test_check_integrity_notices_tables_that_disagree_with_the_counts(tables: list[list[int]]) -> None:
    pool = BlockPool(2)
    assert pool.allocate(1) == [0]
    pool.check_integrity([[0]])
    with pytest.raises(AssertionError):
        pool.check_integrity(tables)
