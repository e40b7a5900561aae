"""What a connection may say. The parser refuses two lengths for one message, and whatever else is no HTTP."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay_runtime.request import RequestError
from forebay_runtime.server.errors import error_body

MAX_HEAD_BYTES = 64 << 10
_PHRASES = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class Protocol(HttpToolsProtocol):
    """Refuses in the same shape as everything else, and closes: what follows on such a connection can't be trusted."""

    _head_bytes = 0  # received of a head that is not complete

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"The request's head is longer than {MAX_HEAD_BYTES} bytes.", "head_too_large")

    def on_headers_complete(self) -> None:
        """ValueError, and so 400, for codings of a body that we can't undo."""
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            raise ValueError("only chunked bodies are understood")
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg, "invalid_http")

    def _refuse(self, status: int, message: str, code: str) -> None:
        if self.transport.is_closing():
            return
        body = error_body(RequestError(message, status=status, code=code))
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n" % (status, _PHRASES[status])
        self.transport.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        self.transport.close()
