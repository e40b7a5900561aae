"""What a connection may say. The parser refuses two lengths for one message, and whatever else is no HTTP."""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay_runtime.request import RequestError
from forebay_runtime.server.errors import error_body

MAX_HEAD_BYTES = 64 << 10
PIECE, BODY_PIECE = 4 << 10, 16 << 10  # bytes read at once: they bound how many small requests of a connection wait
_PHRASES = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}
_UPGRADE = (b"upgrade", b"connection", b"http2-settings")


class Protocol(HttpToolsProtocol):
    """Refuses in the same shape as everything else, and closes: what follows on such a connection can't be trusted.

    A wish for another protocol is passed over, and so are trailers.
    """

    _head_bytes = 0  # received of a head that is not complete, or of what is between the pieces of a body
    _in_body = False
    _unread = b""

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
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as e:
            self._go_on_without_upgrade(data[e.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, "Invalid HTTP request received.", "invalid_http")
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"The request's head is longer than {MAX_HEAD_BYTES} bytes.", "head_too_large")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """ValueError, and so 400, for tunnels and codings of a body that we can't undo."""
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("no tunnels")
        if self.parser.should_upgrade():
            return
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            raise ValueError("only chunked bodies are understood")
        self._head_bytes, self._in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._head_bytes, self._in_body = 0, False
        super().on_message_complete()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Reads the request again as one that wishes for nothing: the parser has stopped before its body."""
        method, keeps = self.parser.get_method(), self.parser.should_keep_alive()
        headers = [(name, value) for name, value in self.headers if name not in _UPGRADE]
        lines = [method + b" " + self.url + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
        lines += [] if keeps else [b"connection: close"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _refuse(self, status: int, message: str, code: str) -> None:
        if self.transport.is_closing():
            return
        body = error_body(RequestError(message, status=status, code=code))
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n" % (status, _PHRASES[status])
        self.transport.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        self.transport.close()
