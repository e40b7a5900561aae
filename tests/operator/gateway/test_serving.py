"""What the programs' HTTP server adds to uvicorn's: bounds on heads, JSON for broken requests, an orderly end."""

import asyncio
import json
import os
import signal
import sys

import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator import http_protocol, serving
from forebay_operator.cli import main
from tests.support.asgi import Recorder, answering, on_loopback, piece, start

GOOD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def talk(address: str, *sent: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    for part in sent:
        writer.write(part)
    got = await reader.read()
    writer.close()
    return got


def parts(reply: bytes) -> tuple[int, dict[str, object]]:
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
    ],
)
async def test_a_request_that_can_be_read_two_ways_or_none_is_refused_and_closed(request_: bytes) -> None:
    app = answering(200, {})
    async with on_loopback(app) as address:
        reply = await talk(address, request_, GOOD)
    status, body = parts(reply)
    assert status == 400
    assert body["error"]
    assert reply.count(b"HTTP/1.1") == 1


async def test_an_endless_head_is_refused() -> None:
    async with on_loopback(answering(200, {})) as address:
        status, body = parts(await talk(address, b"GET / HTTP/1.1\r\nX: ", b"x" * http_protocol.MAX_HEAD_BYTES))
    assert status == 400
    assert "head is longer" in json.dumps(body)


async def test_a_head_in_pieces_and_a_large_body_are_read() -> None:
    app = answering(200, {})
    body = b"x" * (1 << 20)
    head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with on_loopback(app) as address:
        reply = await talk(address, head[:9], head[9:40], head[40:], body)
    assert reply.startswith(b"HTTP/1.1 200")
    assert app.requests[0][1] == body


async def test_a_head_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.01)
    async with on_loopback(answering(200, {})) as address:
        assert await talk(address) == b""
        assert await talk(address, b"GET / HTTP/1.1\r\nHo") == b""


@pytest.mark.parametrize(
    "next_",
    [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", b"GET / HTTP/1.1\r\nHo"],
    ids=["body", "head"],
)
async def test_what_comes_slowly_behind_a_request_does_not_cut_its_answer(
    monkeypatch: pytest.MonkeyPatch, next_: bytes
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(http_protocol, "BODY_SECONDS", 0.05)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.3)
        await answering(200, {})(scope, receive, send)

    async with on_loopback(slow) as address:
        assert (await talk(address, GOOD, next_)).startswith(b"HTTP/1.1 200")


async def test_a_taken_port_is_one_clear_line() -> None:
    async with on_loopback(answering(200, {})) as address:
        port = int(address.split(":")[1])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}: "):
            serving.bind("127.0.0.1", port)


class Gateway:
    """The gateway as a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, *arguments: str) -> "Gateway":
        command = [sys.executable, "-m", "forebay_operator.cli", "gateway", "--host", "127.0.0.1", "--port", "0"]
        environment = {"PATH": os.environ["PATH"]}
        return cls(
            await asyncio.create_subprocess_exec(*command, *arguments, stderr=asyncio.subprocess.PIPE, env=environment)
        )

    async def address(self) -> str:
        assert self.process.stderr
        async for line in self.process.stderr:
            if b"serving on " in line:
                return line.decode().split("serving on ")[1].strip()
        raise AssertionError("it ended before it served")


async def test_sigterm_lets_a_stream_end_and_exits_with_0() -> None:
    go_on = asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        await piece(send, b"data: 1\n\n")
        await go_on.wait()
        await piece(send, b"data: [DONE]\n\n", more=False)

    async with on_loopback(Recorder(answer)) as up:
        gateway = await Gateway.start("--upstream", f"llama=http://{up}")
        reader, writer = await asyncio.open_connection(*(await gateway.address()).split(":"))
        body = b'{"model": "llama", "messages": [], "stream": true}'
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await reader.readuntil(b"data: 1\n\n")
        gateway.process.send_signal(signal.SIGTERM)
        go_on.set()
        assert (await reader.read()).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        writer.close()
        assert await gateway.process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "this is no pod of a cluster; give --upstream MODEL=URL"),
        (["--upstream", "llama"], "--upstream 'llama' is not MODEL=http://HOST:PORT"),
        (["--upstream", "llama=https://x:1"], "--upstream 'llama=https://x:1' is not MODEL=http://HOST:PORT"),
        (["--upstream", "m=http://x:1", "--api-keys-file", "/nowhere"], "No such file or directory: '/nowhere'"),
        (["--upstream", "m=http://x:1", "--api-keys-file", "/dev/null"], "/dev/null holds no key"),
    ],
)
def test_a_gateway_that_cannot_start_says_why_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["gateway", "--host", "127.0.0.1", "--port", "0", *arguments]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert line in said
