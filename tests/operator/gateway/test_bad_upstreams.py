"""Endpoints that break every rule: the client hears an error in OpenAI's shape or is cut off, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from tests.operator.gateway.front import CHAT, Front, gateway, routing_to

Acts = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
EVENTS = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def raw(acts: Acts) -> AsyncIterator[str]:
    """Reads one request and does whatever it likes with the connection; yields host:port."""

    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length"))
            await reader.readexactly(length)
            await acts(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def says(*parts: bytes) -> Acts:
    """These bytes, one part after the other has arrived, and the end."""

    async def acts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)

    return acts


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the gateway goes away."""
    await reader.read()


def says_and_hangs(*parts: bytes) -> Acts:
    async def acts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(*parts)(reader, writer)
        await hangs(reader, writer)

    return acts


async def assert_nothing_is_left(front: Front) -> None:
    """A client hears the end a moment before the gateway is done with it."""
    await front.gateway.drain(5)
    assert not front.busy
    assert front.value("requests_in_flight", model="llama") == 0


BROKEN = {
    "closes at once": says(),
    "closes within the status line": says(b"HTTP/1."),
    "closes within the headers": says(OK + b"Content-Type: appl"),
    "closes before the body": says(OK + b"Content-Length: 10\r\n\r\n"),
    "closes within the body": says(OK + b'Content-Length: 10\r\n\r\n{"a'),
    "closes within a chunk": says(OK + b'Transfer-Encoding: chunked\r\n\r\n10\r\n{"a'),
    "closes between chunks": says(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
    "speaks something else": says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "speaks nothing": says(bytes(range(256)) * 100),
    "gives a length that is none": says(OK + b"Content-Length: many\r\n\r\n{}"),
    "gives two lengths": says(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    "gives a chunk's size that is none": says(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    "gives a header without a name": says(OK + b": x\r\nContent-Length: 2\r\n\r\n{}"),
    "gives a header of a megabyte": says(OK + b"X: " + b"x" * (1 << 20) + b"\r\nContent-Length: 2\r\n\r\n{}"),
    "gives a status of one digit": says(b"HTTP/1.1 2 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "gives a status that is none": says(b"HTTP/1.1 999 What\r\nContent-Length: 2\r\n\r\n{}"),
    "goes on to another protocol": says(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n{}"),
}


@pytest.mark.parametrize("acts", BROKEN.values(), ids=BROKEN)
async def test_an_endpoint_that_speaks_no_http_is_a_502(acts: Acts) -> None:
    async with raw(acts) as at, gateway(routing_to(llama=[at])) as front:
        reply = await front.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "model_broken"), reply.text
        await assert_nothing_is_left(front)


SILENT = {
    "never answers": hangs,
    "stops within the headers": says_and_hangs(OK + b"Content-Type: appl"),
    "stops within the body": says_and_hangs(OK + b'Content-Length: 10\r\n\r\n{"a'),
    "says to go on for ever": says_and_hangs(b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("acts", SILENT.values(), ids=SILENT)
async def test_an_endpoint_that_falls_silent_is_a_504(acts: Acts) -> None:
    async with raw(acts) as at, gateway(routing_to(llama=[at]), idle_timeout=0.1) as front:
        reply = await front.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "model_timeout")
        await assert_nothing_is_left(front)


async def test_an_endpoint_that_says_to_go_on_without_end_is_a_502() -> None:
    async def acts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            await writer.drain()

    async with raw(acts) as at, gateway(routing_to(llama=[at]), idle_timeout=0.1) as front:
        assert (await front.chat()).status_code in (502, 504)
        await assert_nothing_is_left(front)


CUT = {
    "closes within an event": says(EVENTS + b"9\r\ndata: {}\n\r\n"),
    "closes within a chunk of events": says(EVENTS + b"b\r\ndata:"),
    "falls silent within a stream": says_and_hangs(EVENTS + b"a\r\ndata: {}\n\n\r\n"),
    "breaks a stream with garbage": says(EVENTS + b"a\r\ndata: {}\n\n\r\n", b"zz\r\n"),
    "breaks a long answer": says(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 2_000_000, b"x"),
}


@pytest.mark.parametrize("acts", CUT.values(), ids=CUT)
async def test_an_answer_that_has_begun_and_breaks_is_cut_off_and_never_looks_whole(acts: Acts) -> None:
    async with raw(acts) as at, gateway(routing_to(llama=[at]), idle_timeout=0.2) as front:
        with pytest.raises(httpx.RemoteProtocolError):
            await front.chat(stream=True)
        await assert_nothing_is_left(front)
        assert front.value("broken_total", model="llama") == 1


async def test_a_long_answer_is_not_held_until_its_end() -> None:
    whole = b"x" * 3_000_000
    parts = (OK + b"Transfer-Encoding: chunked\r\n\r\n", *[b"186a0\r\n" + whole[:100_000] + b"\r\n"] * 30, b"0\r\n\r\n")
    async with raw(says(*parts)) as at, gateway(routing_to(llama=[at])) as front:
        assert (await front.chat()).content == whole


async def test_an_answer_without_end_goes_on_until_the_client_has_had_enough() -> None:
    async def acts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    async with raw(acts) as at, gateway(routing_to(llama=[at])) as front:
        async with front.client.stream("POST", "/v1/chat/completions", json=CHAT) as reply:
            got = 0
            async for piece in reply.aiter_raw():
                if (got := got + len(piece)) > 4 << 20:
                    break
        await assert_nothing_is_left(front)


async def test_an_endpoint_that_trickles_is_heard_to_its_end() -> None:
    async def acts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in OK + b"Content-Length: 2\r\n\r\n{}":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.005)

    async with raw(acts) as at, gateway(routing_to(llama=[at]), idle_timeout=5) as front:
        assert (await front.chat()).json() == {}


async def test_headers_between_the_endpoint_and_the_gateway_stay_there() -> None:
    head = (
        OK + b"Connection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\n{}"
    )
    async with raw(says(head)) as at, gateway(routing_to(llama=[at])) as front:
        headers = (await front.chat()).headers
    assert headers["x-end"] == "2"
    assert not {"x-hop", "keep-alive"} & set(headers)
