"""Work for a client lasts as long as its connection does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Runs `work`; cancels it when the client goes away first."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
