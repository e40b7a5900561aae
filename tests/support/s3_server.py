"""A small S3: ListObjectsV2 in pages, GET with ranges, and the faults that a store may have."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

BUCKET, KEY_ID = "models", "AKIDEXAMPLE"
PAGE = 2  # objects


@dataclass
class Store:
    """`public`: nobody has to sign. `cuts`: how often an answer with an object ends half way. `pause`: seconds between
    its pieces. `asked`: for which objects, from which byte on."""

    objects: dict[str, bytes]
    public: bool = False
    cuts: int = 0
    pause: float = 0.0
    url: str = ""
    asked: list[tuple[str, int]] = field(default_factory=list)


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        _, bucket, *key = urllib.parse.unquote(url.path).split("/", 2)
        signed = f"Credential={KEY_ID}/" in self.headers.get("Authorization", "")
        if not signed and not self.store.public:
            self._fault(403, "InvalidAccessKeyId")
        elif bucket != BUCKET:
            self._fault(404, "NoSuchBucket")
        elif not key or not key[0]:
            self._list(dict(urllib.parse.parse_qsl(url.query)))
        elif (content := self.store.objects.get(key[0])) is None:
            self._fault(404, "NoSuchKey")
        elif self.headers.get("If-Match", etag(content)) != etag(content):
            self._fault(412, "PreconditionFailed")
        else:
            self._object(key[0], content)

    def _list(self, query: dict[str, str]) -> None:
        names = sorted(n for n in self.store.objects if n.startswith(query.get("prefix", "")))
        begin = int(query.get("continuation-token", 0))
        page, more = names[begin : begin + PAGE], begin + PAGE < len(names)
        rows = "".join(
            f"<Contents><Key>{escape(n)}</Key><Size>{len(self.store.objects[n])}</Size>"
            f"<ETag>{escape(etag(self.store.objects[n]))}</ETag><LastModified>2026-03-01T12:00:00.000Z</LastModified>"
            "</Contents>"
            for n in page
        )
        token = f"<NextContinuationToken>{begin + PAGE}</NextContinuationToken>" if more else ""
        head = f"<Name>{BUCKET}</Name><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
        self._reply(200, f"<ListBucketResult>{head}{token}{rows}</ListBucketResult>".encode())

    def _object(self, name: str, content: bytes) -> None:
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.store.asked.append((name, begin))
        rest = content[begin:]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", etag(content))
        self.send_header("Last-Modified", "Sun, 01 Mar 2026 12:00:00 GMT")
        self.end_headers()
        if self.store.cuts and len(rest) > 1:
            self.store.cuts -= 1
            rest, self.close_connection = rest[: len(rest) // 2], True
        with contextlib.suppress(OSError):  # the client may be gone
            for at in range(0, len(rest), 1 << 16):
                self.wfile.write(rest[at : at + (1 << 16)])
                time.sleep(self.store.pause)

    def _fault(self, status: int, code: str) -> None:
        self._reply(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving(store: Store) -> Iterator[Store]:
    """`store.url` is where it answers until the block ends."""
    answer = type("AnswerOfIt", (Answer,), {"store": store})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    store.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
