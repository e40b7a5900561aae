"""Finds the blocks that already hold a prompt's beginning.

A full block's key is a hash over its parent's key and its tokens; the first block's parent is a root made of the
salt and the adapter. Equal keys therefore mean equal beginnings under one salt and one adapter: SHA-256 makes a
collision, accidental or made by a client, no practical event, so that hits need no comparison of tokens.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence as Tokens
from hashlib import sha256

from forebay_runtime.request import Request
from forebay_runtime.scheduling.block_pool import BlockPool
from forebay_runtime.scheduling.sequence import Sequence


def root_key(salt: str, adapter: str = "") -> bytes:
    salt_bytes = salt.encode("utf-8", "surrogatepass")
    return sha256(struct.pack("<Q", len(salt_bytes)) + salt_bytes + adapter.encode("utf-8", "surrogatepass")).digest()


def _root_key_of(request: Request) -> bytes:
    return root_key(request.cache_salt, "" if request.adapter is None else request.adapter.key)


def block_key(parent: bytes, token_ids: Tokens[int]) -> bytes:
    return sha256(parent + array("q", token_ids).tobytes()).digest()


class PrefixCache:
    """Reads and publishes block contents in `pool`. Each block of a sequence is hashed once, when it is full."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self._pool = pool
        self._block_size = block_size

    def match(self, sequence: Sequence) -> list[int]:
        """The longest run of cached blocks at the sequence's beginning, never its last token's: that must run again."""
        num_full = (sequence.num_tokens - 1) // self._block_size
        self._hash(sequence, num_full)
        blocks: list[int] = []
        for key in sequence.block_keys[:num_full]:
            block = self._pool.lookup(key)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, sequence: Sequence) -> None:
        """Makes the sequence's computed full blocks findable. Computed tokens are verified: drafts never count."""
        num_full = sequence.num_computed_tokens // self._block_size
        self._hash(sequence, num_full)
        for i in range(sequence.num_published_blocks, num_full):
            self._pool.publish(sequence.block_table[i], sequence.block_keys[i])
        sequence.num_published_blocks = num_full

    def _hash(self, sequence: Sequence, num_blocks: int) -> None:
        keys, size = sequence.block_keys, self._block_size
        for i in range(len(keys), num_blocks):
            parent = keys[-1] if keys else _root_key_of(sequence.request)
            keys.append(block_key(parent, sequence.token_ids[i * size : (i + 1) * size]))
