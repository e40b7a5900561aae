"""So many at once, and who is next: the urgent before the others, who are not starved for it."""

from __future__ import annotations

import asyncio

Key = tuple[str, str]  # namespace, name

PATIENCE = 4  # while anybody urgent waits, every so many-th turn is still another's


class Turns:
    """`count` turns that are taken and given back; each key waits for one at most at a time."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._urgent: dict[Key, asyncio.Future[None]] = {}  # in the order of their coming, as the others
        self._others: dict[Key, asyncio.Future[None]] = {}
        self._given = 0

    async def take(self, key: Key, *, urgent: bool) -> None:
        """Waits for a turn."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others)[key] = turn
        try:
            await turn
        except asyncio.CancelledError:
            self._urgent.pop(key, None)
            self._others.pop(key, None)
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def hurry(self, key: Key) -> None:
        """Who waits has become urgent."""
        if turn := self._others.pop(key, None):
            self._urgent[key] = turn

    def give_back(self) -> None:
        """To who is next."""
        while waiting := self._next():
            turn = waiting.pop(next(iter(waiting)))
            if not turn.done():  # it may have been cancelled in this very moment
                turn.set_result(None)
                return
        self._free += 1

    def _next(self) -> dict[Key, asyncio.Future[None]]:
        self._given += 1
        patient = self._others and self._given % PATIENCE == 0
        return self._others if patient or not self._urgent else self._urgent
