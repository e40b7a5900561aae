"""Admission, disconnects, draining, health and metrics: what the server does beside answering."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.scheduling.step import DeviceError
from forebay_runtime.server.app import Application
from forebay_runtime.server.errors import SHUT_DOWN
from tests.support.toy_server import NAME, SCHEDULER, application, running

CHAT = "/v1/chat/completions"
SLOW = 0.005  # seconds a step
SMALL = SchedulerConfig(
    max_num_seqs=1, max_num_batched_tokens=16, max_num_waiting=1, max_model_len=256, block_size=4, num_blocks=128
)


def body(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "the mill"}]
    return {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 4, "ignore_eos": True, **fields}


class LeavingClient:
    """Speaks ASGI with the application and goes away when told to."""

    def __init__(self, **fields: Any) -> None:
        self._body = json.dumps(body(**fields)).encode()
        self._sent = False
        self.gone = asyncio.Event()
        self.heard = asyncio.Event()
        self.status = 0
        self.received = b""

    async def run(self, app: Application) -> None:
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [], "query_string": b"", "root_path": ""}
        await app.asgi(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.received += message.get("body", b"")
        if message["type"] == "http.response.body":
            self.heard.set()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110, what is waited for happens in another thread
        await asyncio.sleep(0.001)


async def sample(client: httpx.AsyncClient, name: str, **labels: str) -> float:
    text = (await client.get("/metrics")).text
    for family in text_string_to_metric_families(text):
        for s in family.samples:
            if s.name == name and labels.items() <= s.labels.items():
                return float(s.value)
    raise AssertionError(f"{name} is not there")


@contextlib.asynccontextmanager
async def busy(app: Application, count: int = 1, **fields: Any) -> Any:
    """That many endless requests are being answered."""
    clients = [LeavingClient(max_tokens=10_000, **fields) for _ in range(count)]
    running = [asyncio.ensure_future(c.run(app)) for c in clients]
    await until(lambda: app.admission.num_sequences >= count)
    try:
        yield clients
    finally:
        for c in clients:
            c.gone.set()
        await asyncio.gather(*running)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_work_along(stream: bool) -> None:
    app = application(step_seconds=SLOW)
    async with running(app) as client:
        async with busy(app, stream=stream) as (leaver,):
            await until(lambda: app.loop.stats().num_running == 1)
            if stream:
                await leaver.heard.wait()
        await until(lambda: not app.loop.stats().num_running)
        assert app.admission.num_sequences == 0
        assert await sample(client, "vllm:request_success_total", finished_reason="abort") == 1


async def test_a_client_that_leaves_the_queue_is_never_run() -> None:
    app = application(SMALL, step_seconds=SLOW)
    async with running(app) as client, busy(app):
        await until(lambda: app.loop.stats().num_running == 1)
        async with busy(app, 2):
            await until(lambda: app.loop.stats().num_waiting == 1)
        await until(lambda: not app.loop.stats().num_waiting)
        assert await sample(client, "vllm:num_requests_running") == 1


async def test_the_cap_is_counted_on_arrival() -> None:
    app = application(SMALL, step_seconds=SLOW)
    async with running(app) as client, busy(app, 2):
        reply = await client.post(CHAT, json=body())
        assert reply.status_code == 429
        assert reply.json()["error"]["type"] == "rate_limit_error"
        assert reply.headers["retry-after"].isdigit()
        assert (await client.get("/health")).status_code == 200


async def test_draining_refuses_new_work_and_ends_what_runs() -> None:
    app = application(step_seconds=SLOW)
    async with running(app) as client:
        begun = LeavingClient(max_tokens=20, stream=True)
        answering = asyncio.ensure_future(begun.run(app))
        await begun.heard.wait()
        draining = asyncio.ensure_future(app.admission.drain(grace=30))
        await asyncio.sleep(0)
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 200
        refused = await client.post(CHAT, json=body())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.headers["retry-after"].isdigit()
        assert await sample(client, "forebay_draining") == 1
        assert await draining
        await answering
        assert begun.received.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_what_outlasts_the_grace_is_told_so(stream: bool) -> None:
    app = application(step_seconds=SLOW)
    async with running(app):
        client = LeavingClient(max_tokens=10_000, stream=stream)
        answering = asyncio.ensure_future(client.run(app))
        await until(lambda: app.loop.stats().num_running == 1)
        assert not await app.admission.drain(grace=0)
        app.loop.fail_all(SHUT_DOWN)
        await answering
        assert b'"code":"draining"' in client.received
        assert client.status == (200 if stream else 503)
        assert b"[DONE]" not in client.received


async def test_counters_grow_by_exactly_the_usage() -> None:
    async with running(application()) as client:
        used = {"prompt_tokens": 0, "completion_tokens": 0}
        for fields in ({}, {"n": 3, "temperature": 1}, {"stop": "the"}, {"stream": False, "max_tokens": 9}):
            usage = (await client.post(CHAT, json=body(**fields))).json()["usage"]
            used = {k: v + usage[k] for k, v in used.items()}
        await client.post(CHAT, json=body(temperature=-1))
        assert await sample(client, "vllm:prompt_tokens_total") == used["prompt_tokens"]
        assert await sample(client, "vllm:generation_tokens_total") == used["completion_tokens"]
        assert await sample(client, "vllm:time_to_first_token_seconds_count") == 6
        assert await sample(client, "vllm:e2e_request_latency_seconds_count") == 6
        assert await sample(client, "vllm:num_requests_running") == 0


async def test_health_fails_when_no_step_ends() -> None:
    app = application(step_seconds=SLOW)
    async with running(app), busy(app):
        await until(lambda: app.loop.stats().num_running == 1)
        now = app.loop.stats().heartbeat
        assert not app.loop.is_stalled(60, now + 59)
        assert app.loop.is_stalled(60, now + 61)


async def test_an_idle_engine_is_never_stalled() -> None:
    app = application()
    async with running(app):
        assert not app.loop.is_stalled(60, app.loop.stats().heartbeat + 10_000)


@pytest.mark.parametrize("error", [DeviceError("CUDA error: an illegal memory access"), None])
async def test_a_broken_engine_fails_what_runs_and_is_reported(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    app = application(on_broken=told.append)

    def fail(*_: object) -> None:
        raise error or AssertionError("a fault of the scheduler's")

    target = "forebay_runtime.scheduling.scheduler.Scheduler.schedule"
    if error is not None:
        target = "tests.support.toy_server.SpeakingModel.execute"
    monkeypatch.setattr(target, fail)
    async with running(app) as client:
        reply = await client.post(CHAT, json=body())
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")
        assert "illegal" not in reply.text
        await until(lambda: bool(told))
        assert "illegal memory access" in told[0] if error else "fault" in told[0]


async def test_one_request_that_can_t_be_computed_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    app = application()
    async with running(app) as client:
        monkeypatch.setattr("tests.support.toy_server.SpeakingModel.execute", _fails_at_seed(13))
        bad, good = await asyncio.gather(*[client.post(CHAT, json=body(seed=s, stream=True)) for s in (13, 14)])
        assert b"internal_error" in bad.content
        assert good.content.endswith(b"data: [DONE]\n\n")


def _fails_at_seed(seed: int) -> Callable[..., Any]:
    from tests.support.toy_server import SpeakingModel

    execute = SpeakingModel.execute

    def run(self: SpeakingModel, step: Any) -> Any:
        if any(s.sequence.request.sampling.seed == seed for s in step.sequences):
            raise ValueError("not this one")
        return execute(self, step)

    return run


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("by", ["header", "server"])
async def test_an_answer_that_takes_too_long_ends_with_an_error(by: str, stream: bool) -> None:
    app = application(step_seconds=SLOW, request_timeout=0.05 if by == "server" else None)
    headers = {"X-Request-Timeout": "0.05" if by == "header" else "100"}
    async with running(app) as client:
        reply = await client.post(CHAT, json=body(max_tokens=10_000, stream=stream), headers=headers)
        assert reply.status_code == (200 if stream else 504)
        assert '"code":"deadline_exceeded"' in reply.text
        assert "[DONE]" not in reply.text
        await until(lambda: not app.loop.stats().num_running)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_in_time_is_whole(stream: bool) -> None:
    async with running(application(request_timeout=200)) as client:
        reply = await client.post(CHAT, json=body(stream=stream), headers={"X-Request-Timeout": "100"})
        assert '"finish_reason":"length"' in reply.text


async def test_silence_is_broken_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay_runtime.server.stream._KEEP_ALIVE", 0.01)
    app = application(SMALL, step_seconds=SLOW)
    async with running(app), busy(app), busy(app, 2, stream=True) as (waiting, _):
        await waiting.heard.wait()
        await until(lambda: b": still here\n\n" in waiting.received)


async def test_scrapes_stay_whole_under_load() -> None:
    app = application(SCHEDULER, step_seconds=SLOW)
    async with running(app) as client, busy(app, 8, stream=True):
        for _ in range(5):
            families = list(text_string_to_metric_families((await client.get("/metrics")).text))
            assert all(f.documentation and f.type != "unknown" for f in families)
