"""Clients that ask again and again, streamed and not, and remember how each request ended."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from types import TracebackType

import httpx


@dataclasses.dataclass(frozen=True)
class Request:
    """What one client asks for, over and over."""

    tokens: int = 16
    stream: bool = True
    prompt: str = "Tell me a long story about a river."


@dataclasses.dataclass(frozen=True)
class Shot:
    """One request and how it ended."""

    request: Request
    seconds: float
    status: int
    error: str = ""

    def __str__(self) -> str:
        kind = "streamed" if self.request.stream else "plain"
        return f"{kind}, {self.request.tokens} tokens: {self.status} after {self.seconds:.1f} s {self.error}"


def ask(client: httpx.Client, model: str, request: Request) -> Shot:
    """One chat request. Never raises: the shot tells what happened."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": request.prompt}],
        "max_tokens": request.tokens,
        "stream": request.stream,
        "ignore_eos": True,
    }
    began, status, error = time.monotonic(), 0, ""
    try:
        with client.stream("POST", "/v1/chat/completions", json=body) as reply:
            status = reply.status_code
            lines = list(reply.iter_lines())
        if status != 200:
            error = " ".join(lines)[:300]
        elif request.stream and "data: [DONE]" not in lines:
            error = f"ended without [DONE] after {len(lines)} lines"
        elif not request.stream and not json.loads("".join(lines))["choices"]:
            error = "no choices"
    except (httpx.HTTPError, ValueError) as e:
        error = f"{type(e).__name__}: {e}"
    return Shot(request, time.monotonic() - began, status, error)


class Load:
    """`with Load(url, model, [Request(...)] * 4) as load: ...`: leaving the block lets every request end."""

    def __init__(self, url: str, model: str, clients: list[Request]) -> None:
        self.shots: list[Shot] = []
        self._stop = threading.Event()
        self._told = threading.Condition()
        self._threads = [threading.Thread(target=self._loop, args=(url, model, c), daemon=True) for c in clients]

    def _loop(self, url: str, model: str, request: Request) -> None:
        with httpx.Client(base_url=url, timeout=120) as client:
            while not self._stop.is_set():
                shot = ask(client, model, request)
                with self._told:
                    self.shots.append(shot)
                    self._told.notify_all()
                if shot.error:
                    self._stop.wait(0.5)  # a client that fails does not hammer

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        if kind is None:
            self.lost_nothing()

    def goes_on(self, count: int, seconds: float = 60) -> None:
        """Waits until so many more requests have ended."""
        enough = len(self.shots) + count
        self.until(lambda: len(self.shots) >= enough, seconds, f"{count} more requests")

    def until(self, look: Callable[[], bool], seconds: float, what: str) -> None:
        """Asks `look` after each request that ends."""
        with self._told:
            assert self._told.wait_for(look, seconds), f"not within {seconds:.0f} s under load: {what}; {self}"

    def lost_nothing(self) -> None:
        bad = [s for s in self.shots if s.error]
        assert not bad, f"{len(bad)} of {len(self.shots)} requests failed; the first: {bad[0]}"
        assert self.shots, "no request was made"

    def __str__(self) -> str:
        return f"{len(self.shots)} requests, the last: {self.shots[-1] if self.shots else None}"
