"""Pods that answer with too much, or with what cannot be read."""

from __future__ import annotations

import aiohttp
import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator.pod_answer import MAX_BYTES, UntoldError, document, text
from tests.support.asgi import Recorder, closed_address, on_loopback, piece, start


def saying(body: bytes, status: int = 200, times: int = 1, **headers: str) -> Recorder:
    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, status, "application/json", **headers)
        for _ in range(times):
            await piece(send, body)
        await piece(send, b"", more=False)

    return Recorder(answer)


async def test_an_answer_without_end_is_not_read_to_it() -> None:
    endless = saying(b"x" * (1 << 20), times=MAX_BYTES >> 18)
    async with on_loopback(endless) as at, aiohttp.ClientSession() as session:
        with pytest.raises(UntoldError, match="more than"):
            await text(session, f"http://{at}/", 30)


async def test_a_pod_sends_nobody_elsewhere() -> None:
    stranger = saying(b"{}")
    async with (
        on_loopback(stranger) as other,
        on_loopback(saying(b"{}", 307, location=f"http://{other}/")) as at,
        aiohttp.ClientSession() as session,
    ):
        assert await document(session, f"http://{at}/", 30) == (307, {})
    assert stranger.requests == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\xfd", b"[" * 100_000])
async def test_what_is_no_json_is_untold(body: bytes) -> None:
    async with on_loopback(saying(body)) as at, aiohttp.ClientSession() as session:
        with pytest.raises(UntoldError):
            await document(session, f"http://{at}/", 30)


async def test_a_pod_that_is_away_is_untold() -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(UntoldError, match="ClientConnectorError"):
            await text(session, f"http://{closed_address()}/", 30)
