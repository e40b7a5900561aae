"""What a pod answers, read whole: bounded, and followed nowhere, for a pod runs what its user chose."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

MAX_BYTES = 8 << 20


class UntoldError(Exception):
    """The pod did not answer, or with what cannot be read; the message says how."""


async def text(session: aiohttp.ClientSession, url: str, seconds: float) -> tuple[int, str]:
    """Its status and its text. UntoldError."""
    try:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with session.get(url, timeout=timeout, allow_redirects=False) as reply:
            return reply.status, (await _bounded(reply)).decode()
    except (aiohttp.ClientError, OSError, TimeoutError, UnicodeDecodeError) as e:
        raise UntoldError(f"{type(e).__name__}: {e}") from e


async def document(session: aiohttp.ClientSession, url: str, seconds: float) -> tuple[int, Any]:
    """Its status and its JSON. UntoldError."""
    status, found = await text(session, url, seconds)
    try:
        return status, json.loads(found)
    except (ValueError, RecursionError) as e:
        raise UntoldError(f"no JSON: {e}") from e


async def _bounded(reply: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for piece in reply.content.iter_any():
        found += piece
        if len(found) > MAX_BYTES:
            raise UntoldError(f"it answers with more than {MAX_BYTES} bytes")
    return bytes(found)
