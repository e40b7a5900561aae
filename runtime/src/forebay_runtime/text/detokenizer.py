"""Tokens in, text out: whole characters only, nothing that may be part of a stop string, nothing after one."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Detokenizer:
    """The text of one output. What the pushes and `finish` return, joined, does not depend on how it was asked for.

        released text | held back | bytes of an unfinished character
                      ^ num_released                        (num_chars counts both kinds of text)

    Held back is the longest end of the text that a stop string begins with. A stop string counts as found with the
    token that completes it; of several found with one token the one that begins first does.
    """

    def __init__(self, stop: Sequence[str] = (), *, include_stop: bool = False) -> None:
        self._stop = tuple(stop)
        self._include_stop = include_stop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.num_chars = 0  # decoded so far
        self.num_released = 0
        self.stop_string: str | None = None  # the one that has come

    @property
    def stopped(self) -> bool:
        return self.stop_string is not None

    def start_of(self, data: bytes) -> int:
        """Where the text of a token with these bytes would begin, in characters."""
        unfinished = self._decoder.getstate()[0]
        if not unfinished or not data or data[0] & 0xC0 == 0x80:
            return self.num_chars
        return self.num_chars + len(unfinished.decode("utf-8", "replace"))

    def push(self, data: bytes) -> str:
        """Takes in one token's bytes and returns the text that is now certain. Nothing once `stopped`."""
        if self.stopped:
            return ""
        text = self._decoder.decode(data)
        if not text:
            return ""
        self.num_chars += len(text)
        if not self._stop:
            self.num_released += len(text)
            return text
        self._held += text
        return self._release(self._find_stop())

    def finish(self) -> str:
        """The rest: no stop string came of what was held back. An unfinished character is dropped."""
        return self._take(len(self._held))

    def _find_stop(self) -> tuple[int, str] | None:
        """Where a stop string begins that has come, and which; None if none has."""
        found = [(at, stop) for stop in self._stop if (at := self._held.find(stop)) >= 0]
        return min(found, key=lambda pair: (pair[0], len(pair[1])), default=None)

    def _release(self, stop: tuple[int, str] | None) -> str:
        if stop is None:
            return self._take(len(self._held) - max(overlap(self._held, stop) for stop in self._stop))
        at, self.stop_string = stop
        text = self._take(at + len(self.stop_string) if self._include_stop else at)
        self._held = ""
        return text

    def _take(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self.num_released += length
        return text


def overlap(text: str, stop: str) -> int:
    """Length of the longest proper beginning of `stop` that `text` ends with."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
