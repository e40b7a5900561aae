"""What a connection may say, and for how long. The parser itself refuses what is no HTTP, or can be read two ways."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
PIECE, BODY_PIECE = 4 << 10, 16 << 10  # bytes read at once: they bound how many small requests of a connection wait
HEAD_SECONDS = 30.0
BODY_SECONDS = 130.0  # a little more than the gateway gives, which can say so
UPGRADE = (b"upgrade", b"connection", b"http2-settings")


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, and: a request is bounded in time and, but for its body, in size; one that is broken gets a
    JSON error; a wish for another protocol is passed over, and trailers are; the name in a verified client certificate
    is in the scope (ASGI's TLS extension, `client_cert_name`)."""

    _idle_bytes = 0  # received since the last head, piece of a body or end: of a head, or of what is between chunks
    _in_body = False
    _unread = b""
    _timer: asyncio.TimerHandle | None = None
    _peer: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = _common_name(transport.get_extra_info("peercert"))
        self._expect_within(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._read()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._read()

    def _read(self) -> None:
        """Reads on until a request has to wait for the one before it: what comes after that one waits as bytes."""
        at = 0
        while at < len(self._unread) and not self.pipeline and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            piece = self._unread[at : at + (BODY_PIECE if self._in_body else PIECE)]
            at += len(piece)
            self._feed(piece)
        self._unread = self._unread[at:]
        if (self._unread or self.pipeline) and not self.transport.is_closing():
            self.flow.pause_reading()

    def _feed(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as e:
            self._go_on_without_upgrade(data[e.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._idle_bytes > MAX_HEAD_BYTES:
            self.send_400_response(f"The request's head is longer than {MAX_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"tls": {"client_cert_name": self._peer}}
        self._expect_within(HEAD_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """ValueError, and so 400, for tunnels and codings of a body that are not undone here."""
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("no tunnels")
        if self.parser.should_upgrade():
            return
        if [v.strip().lower() for n, v in self.headers if n == b"transfer-encoding"] not in ([], [b"chunked"]):
            raise ValueError("only chunked bodies are understood")
        self._idle_bytes, self._in_body = 0, True
        self._expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._idle_bytes, self._in_body = 0, False
        self._expect_nothing()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self.transport.is_closing():
            return
        error = {"message": msg, "type": "invalid_request_error", "param": None, "code": "bad_request"}
        body = json.dumps({"error": error}).encode()
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Reads the request again as one that wishes for nothing: the parser has stopped before its body."""
        method, keeps = self.parser.get_method(), self.parser.should_keep_alive()
        headers = [(n, v) for n, v in self.headers if n not in UPGRADE]
        lines = [method + b" " + self.url + b" HTTP/1.1", *(n + b": " + v for n, v in headers)]
        lines += [] if keeps else [b"connection: close"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _expect_within(self, seconds: float) -> None:
        """What comes next ends within so many seconds, or the connection does."""
        self._expect_nothing()
        self._timer = self.loop.call_later(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        """A request that begins behind one that is being answered has all the time of that one."""
        answering = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if self.pipeline or answering:
            self._expect_within(seconds)
        else:
            self.transport.close()

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    subject = (certificate or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), None)
