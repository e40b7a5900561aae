"""Physical KV blocks: who holds them, which may be had, which are remembered for their content.

A block is in exactly one of three places:
    used    ref_count > 0: in that many block tables
    cached  ref_count = 0 and published under a key: kept for a later prefix hit, may be evicted
    free    ref_count = 0, no key
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class BlockPool:
    """Counts references to `num_blocks` blocks and evicts the cached one that was released longest ago."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._keys: list[bytes | None] = [None] * num_blocks
        self._block_of_key: dict[bytes, int] = {}
        self._free = list(range(num_blocks - 1, -1, -1))
        self._cached: dict[int, None] = {}  # in order of release, oldest first

    @property
    def num_available(self) -> int:
        """Blocks that `allocate` can give: free ones and, after eviction, cached ones."""
        return len(self._free) + len(self._cached)

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_available

    def allocate(self, count: int) -> list[int]:
        """`count` blocks with one reference each. ValueError if fewer are available."""
        if count > self.num_available:
            raise ValueError(f"{count} blocks asked for, {self.num_available} of {self.num_blocks} available")
        return [self._take() for _ in range(count)]

    def _take(self) -> int:
        block = self._free.pop() if self._free else self._evict()
        self._ref_counts[block] = 1
        return block

    def _evict(self) -> int:
        block = next(iter(self._cached))
        del self._cached[block]
        key = self._keys[block]
        assert key is not None
        del self._block_of_key[key]
        self._keys[block] = None
        return block

    def share(self, block: int) -> None:
        """One more reference to a used or cached block."""
        if not self._ref_counts[block]:
            del self._cached[block]
        self._ref_counts[block] += 1

    def release(self, block_table: Sequence[int]) -> None:
        """Gives back one reference to each block, tails first: the head of a prefix serves more and goes last."""
        for block in reversed(block_table):
            self._ref_counts[block] -= 1
            if self._ref_counts[block]:
                continue
            if self._keys[block] is None:
                self._free.append(block)
            else:
                self._cached[block] = None

    def publish(self, block: int, key: bytes) -> None:
        """Remembers a used block's content under `key`, unless another block has it already."""
        if key not in self._block_of_key:
            self._keys[block] = key
            self._block_of_key[key] = block

    def lookup(self, key: bytes) -> int | None:
        return self._block_of_key.get(key)

    def is_used(self, block: int) -> bool:
        return self._ref_counts[block] > 0

    def check_integrity(self, block_tables: Iterable[Sequence[int]]) -> None:
        """AssertionError unless free + cached + used = total and the counts are exactly those of the tables given."""
        tables = [list(table) for table in block_tables]
        for table in tables:
            assert len(set(table)) == len(table), f"a block twice in one table: {table}"
        held = Counter(block for table in tables for block in table)
        counted = {block: n for block, n in enumerate(self._ref_counts) if n}
        assert counted == dict(held), f"references {counted} differ from the tables' {dict(held)}"
        free, cached, used = set(self._free), set(self._cached), set(held)
        assert len(free) == len(self._free), "a block is free twice"
        assert len(free) + len(cached) + len(used) == self.num_blocks == len(free | cached | used)
        keyed = {key: block for block, key in enumerate(self._keys) if key is not None}
        assert keyed == self._block_of_key, "a key and its block disagree"
        assert not free & set(keyed.values()), "a free block has a key"
        assert cached <= set(keyed.values()), "a cached block has no key"
