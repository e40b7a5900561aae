"""A cluster as its user sees it: kubectl, and the API server behind `kubectl proxy` for looking and watching.

Waiting is a watch: `until` looks again at each change that the API server tells of, and never sleeps.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx
import yaml

Object = dict[str, Any]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Done:
    """A command that ended: its exit status and what it wrote."""

    rc: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def tool(name: str) -> str:
    """Where this command is: among the binaries of `make up`, else on the PATH."""
    own = pathlib.Path(os.environ.get("FOREBAY_STATE", "/var/lib/forebay")) / "bin"
    found = shutil.which(name, path=f"{own}{os.pathsep}{os.environ['PATH']}")
    if not found:
        raise FileNotFoundError(f"no {name} in {own} nor on the PATH: `make up` brings it")
    return found


def run(name: str, *args: str, stdin: str | None = None, timeout: float = 60) -> Done:
    got = subprocess.run([tool(name), *args], input=stdin, capture_output=True, text=True, timeout=timeout)
    return Done(got.returncode, got.stdout, got.stderr)


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """The API path of `group/version/plural` (`version/plural` in the core group)."""
    *group_version, plural = kind.split("/")
    root = "/api/" if len(group_version) == 1 else "/apis/"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{'/'.join(group_version)}{inside}/{plural}" + (f"/{name}" if name else "")


class Kube:
    """One `kubectl proxy` for as long as the object lives; close it at the end."""

    def __init__(self) -> None:
        command = [tool("kubectl"), "proxy", "--address=127.0.0.1", "--port=0"]
        self._proxy = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._proxy.stdout is not None
        assert self._proxy.stderr is not None
        line = self._proxy.stdout.readline()
        if ":" not in line:
            raise RuntimeError(f"kubectl proxy did not start, is KUBECONFIG right? {self._proxy.stderr.read()}")
        self.url = f"http://127.0.0.1:{line.strip().rpartition(':')[2]}"
        self._http = httpx.Client(base_url=self.url, timeout=30)

    def close(self) -> None:
        self._http.close()
        self._proxy.terminate()
        self._proxy.communicate(timeout=10)

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 60) -> Done:
        return run("kubectl", *args, stdin=stdin, timeout=timeout)

    def must(self, *args: str, stdin: str | None = None, timeout: float = 60) -> str:
        """kubectl's output; fails with what it said if it did not succeed."""
        done = self.kubectl(*args, stdin=stdin, timeout=timeout)
        assert done.rc == 0, f"kubectl {' '.join(args)} -> {done.rc}: {done.text[-1500:]}"
        return done.out

    def apply(self, namespace: str, *manifests: Object) -> str:
        return self.must("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return self._http.request(method, path, content=content, headers={"content-type": content_type})

    def get(self, path: str) -> Object | None:
        """The object at this path, or None where there is none."""
        reply = self.call("GET", path)
        if reply.status_code == 404:
            return None
        reply.raise_for_status()
        found: Object = reply.json()
        return found

    def items(self, path: str, selector: str = "") -> list[Object]:
        reply = self._http.get(path, params={"labelSelector": selector} if selector else None)
        if reply.status_code == 404:
            return []
        reply.raise_for_status()
        found: list[Object] = reply.json()["items"] or []
        return found

    def patch(self, path: str, body: Object) -> Object:
        """A merge patch; the object as it is then."""
        reply = self.call("PATCH", path, body, "application/merge-patch+json")
        assert reply.status_code == 200, f"PATCH {path} {body} -> {reply.status_code} {reply.text[:800]}"
        patched: Object = reply.json()
        return patched

    def changes(self, path: str, seconds: float) -> Iterator[None]:
        """Yields at once, then at each change in this collection, and once more when the time is over."""
        deadline = time.monotonic() + seconds
        yield
        while (left := deadline - time.monotonic()) > 0:
            params: dict[str, str | int] = {"watch": "true", "timeoutSeconds": max(1, round(left))}
            with (
                contextlib.suppress(httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError),
                self._http.stream("GET", path, params=params, timeout=left + 5) as reply,
            ):
                reply.raise_for_status()
                for _ in reply.iter_lines():
                    yield
                    if time.monotonic() > deadline:
                        return
        yield

    def until(self, look: Callable[[], T | None], watching: str, seconds: float, what: str) -> T:
        """The first true answer of `look`, which is asked again whenever the collection at `watching` changes."""
        seen: T | None = None
        for _ in self.changes(watching, seconds):
            if seen := look():
                return seen
        raise AssertionError(f"not within {seconds:.0f} s: {what} (last seen: {seen!r})")
