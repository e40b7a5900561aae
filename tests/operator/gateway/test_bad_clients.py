"""Clients that break every rule: refused in OpenAI's shape or cut off, and nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from forebay_operator import serving
from tests.operator.gateway.front import Front, gateway, routing_to
from tests.support.asgi import Recorder, answering, on_loopback, piece, start

BODY = b'{"model": "llama", "messages": []}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
KEY = b"Authorization: Bearer sk-right\r\n"


async def talk(front: Front, *sent: bytes) -> bytes:
    """Everything that comes back until the gateway closes the connection."""
    reader, writer = await asyncio.open_connection(*front.address.split(":"))
    try:
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                for part in sent:
                    writer.write(part)
                    await writer.drain()
            with contextlib.suppress(ConnectionResetError):
                return await reader.read()
        return b""
    finally:
        writer.transport.abort()


async def assert_nothing_is_left(front: Front) -> None:
    await front.gateway.drain(5)
    assert not front.busy


REFUSED = {
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding of the body": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding that is none": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "chunks that are not the last coding": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "a size of a chunk that is none": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a size of a chunk below zero": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a length below zero": POST + b"Content-Length: -5\r\n\r\n",
    "a length beyond all": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a header without a colon": POST + b"nonsense\r\n\r\n",
    "a space in a header's name": POST + b"Con tent: 5\r\n\r\n",
    "a null in a header": POST + b"X: a\x00b\r\n\r\n",
    "a header that goes on in the next line": POST + b"X: a\r\n b\r\nX-Y\x0b: c\r\n\r\n",
    "a megabyte of one header": POST + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n",
    "a megabyte of headers": POST + b"X: y\r\n" * (1 << 18) + b"\r\n",
    "a megabyte of a path": b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    "a path that is no ASCII": b"GET /v1/mod\xe8les HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path that is none": b"GET :// HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "a tunnel through a path": b"CONNECT /v1/models HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "the next version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
async def test_what_can_be_read_two_ways_or_none_is_refused_and_closed(request_: bytes) -> None:
    up = answering(200, {})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        reply = await talk(front, request_, POST + LENGTH + b"\r\n" + BODY)
        await assert_nothing_is_left(front)
    assert up.requests == []
    head, _, body = reply.partition(b"\r\n\r\n")
    if reply:  # a head that is much too long may be cut off before its sender has heard why
        assert head.split()[1] in (b"400", b"404", b"405", b"431"), reply
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
        assert reply.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in head.lower()


async def test_a_wish_for_another_protocol_is_passed_over() -> None:
    up = answering(200, {"ok": True})
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        reader, writer = await asyncio.open_connection(*front.address.split(":"))
        writer.write(POST + wish + LENGTH + b"\r\n" + BODY)
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
    assert not {b"upgrade", b"http2-settings"} & {n for n, _ in up.requests[0][0]["headers"]}


async def test_trailers_are_no_headers() -> None:
    up = answering(200, {"ok": True})
    chunked = b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        reply = await talk(front, POST + chunked + b"Authorization: Bearer smuggled\r\nX-Late: 1\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200")
    assert not {b"authorization", b"x-late"} & {n for n, _ in up.requests[0][0]["headers"]}


async def test_trailers_without_end_are_refused() -> None:
    async with on_loopback(answering(200, {})) as at, gateway(routing_to(llama=[at])) as front:
        chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
        reply = await talk(front, POST + chunked, *[b"X: " + b"x" * 1000 + b"\r\n"] * 1000)
        await assert_nothing_is_left(front)
    assert reply.startswith(b"HTTP/1.1 400") or not reply


async def test_text_in_headers_goes_on_as_it_came() -> None:
    up = answering(200, {"ok": True})
    sent = b"X-Title: caf\xc3\xa9\r\nConnection: close\r\n"
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        assert (await talk(front, POST + sent + LENGTH + b"\r\n" + BODY)).startswith(b"HTTP/1.1 200")
    assert dict(up.requests[0][0]["headers"])[b"x-title"] == "café".encode()


LEAVING = {
    "after the head": POST + LENGTH + b"\r\n",
    "within the body": POST + LENGTH + b"\r\n" + BODY[:5],
    "within a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s" % (len(BODY), BODY[:9]),
    "while it waits": POST + LENGTH + b"\r\n" + BODY,
}


@pytest.mark.parametrize("half", [False, True], ids=["closes", "closes its side alone"])
@pytest.mark.parametrize("sent", LEAVING.values(), ids=LEAVING)
async def test_nothing_is_left_of_a_client_that_leaves(sent: bytes, half: bool) -> None:
    async def waits(_scope: Scope, _body: bytes, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with on_loopback(Recorder(waits)) as at, gateway(routing_to(llama=[at])) as front:
        reader, writer = await asyncio.open_connection(*front.address.split(":"))
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(0.05)
        assert front.gateway.active == 1
        writer.write_eof() if half else writer.close()
        await assert_nothing_is_left(front)
        assert not half or await reader.read() == b""
        writer.close()


async def test_a_client_that_stops_reading_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STALLED_SECONDS", 1)
    ended = asyncio.Event()

    async def without_end(_scope: Scope, _body: bytes, receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await piece(send, b"data: " + b"x" * 10_000 + b"\n\n")
        ended.set()

    async with on_loopback(Recorder(without_end)) as at, gateway(routing_to(llama=[at])) as front:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            host, port = front.address.split(":")
            await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
            await asyncio.get_running_loop().sock_sendall(client, POST + LENGTH + b"\r\n" + BODY)
            async with asyncio.timeout(20):
                await ended.wait()
            await assert_nothing_is_left(front)


async def test_many_requests_on_one_connection_are_answered_in_turn() -> None:
    up = answering(200, {"ok": True})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        one = POST + LENGTH + b"\r\n" + BODY
        last = POST + b"Connection: close\r\n" + LENGTH + b"\r\n" + BODY
        reply = await talk(front, one * 49 + last)
        await assert_nothing_is_left(front)
    assert reply.count(b"HTTP/1.1 200") == 50


async def test_requests_that_wait_for_the_one_before_them_wait_as_bytes() -> None:
    """Each of them as an object takes a hundred times its bytes."""
    go_on = asyncio.Event()

    async def waits(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await go_on.wait()
        await start(send, 200, "application/json")
        await piece(send, b"{}", more=False)

    async with on_loopback(Recorder(waits)) as at, gateway(routing_to(llama=[at])) as front:
        small = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        talking = asyncio.ensure_future(talk(front, POST + LENGTH + b"\r\n" + BODY + small * 4000 + last))
        await asyncio.sleep(0.2)
        assert sum(type(o) is RequestResponseCycle for o in gc.get_objects()) < 200
        go_on.set()
        assert (await talking).count(b"HTTP/1.1 200") == 4002
        await assert_nothing_is_left(front)


@contextlib.asynccontextmanager
async def connections(front: Front, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    pairs = [await asyncio.open_connection(*front.address.split(":")) for _ in range(count)]
    try:
        yield [writer for _, writer in pairs]
    finally:
        for _, writer in pairs:
            writer.transport.abort()


async def test_beside_many_that_say_nothing_a_request_is_answered() -> None:
    async with on_loopback(answering(200, {"ok": True})) as at, gateway(routing_to(llama=[at])) as front:
        async with connections(front, 200) as idle:
            for writer in idle[::2]:
                writer.write(POST[:30])
            assert (await front.chat()).status_code == 200
        await assert_nothing_is_left(front)
