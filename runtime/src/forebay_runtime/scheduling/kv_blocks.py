"""The blocks of sequences: what a step's tokens are written into, and what the prefix cache keeps of them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Tokens

from forebay_runtime.request import Pooling
from forebay_runtime.scheduling.block_pool import BlockPool
from forebay_runtime.scheduling.prefix_cache import PrefixCache
from forebay_runtime.scheduling.sequence import Sequence


class KVBlocks:
    """Owns every block. Nothing here decides who gets some, but only whether there are any."""

    def __init__(self, num_blocks: int, block_size: int, *, prefix_caching: bool) -> None:
        self._block_size = block_size
        self._pool = BlockPool(num_blocks)
        self._prefix_cache = PrefixCache(self._pool, block_size) if prefix_caching else None

    @property
    def usage(self) -> float:
        """0 to 1; cached ones that nobody holds count as free."""
        return self._pool.num_used / self._pool.num_blocks

    @property
    def caches_prefixes(self) -> bool:
        return self._prefix_cache is not None

    def match(self, sequence: Sequence) -> list[int]:
        """Blocks that hold its beginning already. A mean needs every token's hidden state, which no block holds."""
        if self._prefix_cache is None or sequence.request.pooling is Pooling.MEAN:
            return []
        return self._prefix_cache.match(sequence)

    def admit(self, sequence: Sequence, cached: list[int], spare: int) -> bool:
        """Gives it its cached blocks and new ones for all its known tokens; False unless `spare` are left then."""
        num_new = -(-len(sequence.token_ids) // self._block_size) - len(cached)
        num_revived = sum(not self._pool.is_used(block) for block in cached)
        if self._pool.num_available - num_revived - num_new < spare:
            return False
        for block in cached:
            self._pool.share(block)
        sequence.block_table += cached + self._pool.allocate(num_new)
        sequence.num_published_blocks = len(cached)
        sequence.num_computed_tokens = len(cached) * self._block_size
        return True

    def cover(self, sequence: Sequence) -> bool:
        """Room for its last known token; False where there is none left."""
        if len(sequence.block_table) * self._block_size >= len(sequence.token_ids):
            return True
        if not self._pool.num_available:
            return False
        sequence.block_table += self._pool.allocate(1)
        return True

    def draft_room(self, sequence: Sequence, draft: Tokens[int], budget: int) -> tuple[int, ...]:
        """The part of the draft that budget, length limit and free blocks leave room for, with its blocks."""
        num_tokens = len(sequence.token_ids)
        count = min(len(draft), budget, sequence.max_num_tokens - num_tokens - 1)
        num_missing = -(-(num_tokens + count) // self._block_size) - len(sequence.block_table)
        if num_missing > 0:
            sequence.block_table += self._pool.allocate(min(num_missing, self._pool.num_available))
        count = min(count, len(sequence.block_table) * self._block_size - num_tokens)
        return tuple(draft[:count])

    def publish(self, sequence: Sequence) -> None:
        """Makes its computed full blocks findable for others."""
        unpublished = sequence.num_computed_tokens - sequence.num_published_blocks * self._block_size
        if self._prefix_cache is not None and unpublished >= self._block_size:
            self._prefix_cache.publish(sequence)

    def release(self, sequence: Sequence) -> None:
        self._pool.release(sequence.block_table)
        sequence.block_table.clear()

    def check_integrity(self, running: Iterable[Sequence]) -> None:
        """AssertionError unless these sequences hold what is held, and no more is published than computed."""
        running = list(running)
        self._pool.check_integrity(s.block_table for s in running)
        for s in running:
            assert len(s.block_table) * self._block_size >= s.num_tokens - 1
            assert s.num_published_blocks * self._block_size <= s.num_computed_tokens
