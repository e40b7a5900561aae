"""A model hub for one model: what `huggingface_hub` asks of a hub, from a folder. Standard library only; runs in a pod.

Usage: hub.py FOLDER ORG/NAME TOKEN [BYTES A SECOND]. Without the token, as a bearer, everything is 401.
"""

import http.server
import json
import pathlib
import sys
import time
import urllib.parse

COMMIT = "0" * 39 + "1"
PIECE = 1 << 20  # bytes


def etag(path: pathlib.Path) -> str:
    """Like a Git hash: 40 digits that change with the file."""
    return f"{path.stat().st_size:040x}"


class Hub(http.server.BaseHTTPRequestHandler):
    folder = pathlib.Path()
    repository = ""
    token = ""
    rate = 0  # bytes a second of a file; 0: as fast as they go
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            self._reply(401, b'{"error": "who are you?"}', with_body)
        elif path.startswith(f"/api/models/{self.repository}/tree/"):
            self._reply(200, json.dumps(self._tree()).encode(), with_body)
        elif path.startswith(f"/api/models/{self.repository}"):
            self._reply(200, json.dumps(self._description()).encode(), with_body)
        elif path.startswith(f"/{self.repository}/resolve/"):
            self._file(path.split("/resolve/", 1)[1].split("/", 1)[1], with_body)
        else:
            self._reply(404, b'{"error": "no such repository"}', with_body, "RepoNotFound")

    def _names(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    def _description(self) -> dict[str, object]:
        siblings = [{"rfilename": name} for name in self._names()]
        return {"id": self.repository, "sha": COMMIT, "private": False, "tags": [], "siblings": siblings}

    def _tree(self) -> list[dict[str, object]]:
        return [
            {"type": "file", "path": name, "size": (self.folder / name).stat().st_size, "oid": etag(self.folder / name)}
            for name in self._names()
        ]

    def _file(self, name: str, with_body: bool) -> None:
        path = self.folder / name
        if not path.is_file():
            self._reply(404, b'{"error": "no such file"}', with_body, "EntryNotFound")
            return
        size = path.stat().st_size
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.send_header("ETag", f'"{etag(path)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            with path.open("rb") as source:
                while piece := source.read(PIECE):
                    self.wfile.write(piece)
                    time.sleep(PIECE / self.rate if self.rate else 0)

    def _reply(self, status: int, body: bytes, with_body: bool, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


if __name__ == "__main__":
    Hub.folder, Hub.repository, Hub.token = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    Hub.rate = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    http.server.ThreadingHTTPServer(("", 8080), Hub).serve_forever()
