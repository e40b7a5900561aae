"""Scrapes: what is read from a pod's page, and which pods are asked."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import aiohttp
import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator.endpoints import Endpoint
from forebay_operator.metrics.scrape import Scraper, Services, parse
from forebay_operator.metrics_page import IncompleteError
from tests.support.asgi import Recorder, closed_address, on_loopback, piece, start

PAGE = """\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{version="3.11"} 1.0
# HELP vllm:num_requests_waiting Requests that wait.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="llama"} 3.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="llama"} 2.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="llama"} 40.0
vllm:generation_tokens_created{model_name="llama"} 1.7e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="llama"} 1.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="llama"} 4.0
vllm:time_to_first_token_seconds_count{model_name="llama"} 4.0
vllm:time_to_first_token_seconds_sum{model_name="llama"} 2.5
"""


def test_a_page_gives_the_load_and_the_first_token_histogram() -> None:
    scrape = parse(PAGE, 5.0)
    assert (scrape.at, scrape.waiting, scrape.running, scrape.generated) == (5.0, 3, 2, 40)
    assert scrape.ttft == {0.1: 1, math.inf: 4}


def test_several_series_of_one_name_are_added() -> None:
    page = PAGE + 'vllm:num_requests_waiting{model_name="llama",lora="x"} 4.0\n'
    assert parse(page, 0).waiting == 7


@pytest.mark.parametrize("name", ["num_requests_waiting", "num_requests_running", "time_to_first_token_seconds"])
def test_what_a_page_lacks_is_not_zero(name: str) -> None:
    page = "\n".join(line for line in PAGE.splitlines() if f"vllm:{name}" not in line) + "\n"
    with pytest.raises(IncompleteError, match=name):
        parse(page, 0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-2"])
def test_what_is_no_count_is_no_data(value: str) -> None:
    with pytest.raises(IncompleteError, match="vllm:num_requests_running say"):
        parse(PAGE.replace('running{model_name="llama"} 2.0', f'running{{model_name="llama"}} {value}'), 0)


@contextlib.asynccontextmanager
async def scraper(services: Services) -> AsyncIterator[Scraper]:
    async with aiohttp.ClientSession() as session:
        found = Scraper(session, lambda: services, clock=lambda: 7.0)
        yield found
        for task in found.begin():
            task.cancel()


def page(text: str, status: int = 200) -> Recorder:
    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, status, "text/plain; version=0.0.4; charset=utf-8")
        await piece(send, text.encode(), more=False)

    return Recorder(answer)


async def test_ready_pods_are_scraped_and_pods_that_go_are_forgotten() -> None:
    async with on_loopback(page(PAGE)) as at:
        services = {("default", "llama"): (Endpoint(at, "llama-1"),)}
        async with scraper(services) as s:
            await asyncio.gather(*s.begin())
            (pod,) = s.pods("default", "llama")
            assert (pod.name, pod.since, [x.waiting for x in pod.scrapes]) == ("llama-1", 7.0, [3])
            assert list(s.pods("other", "llama")) == []
            del services["default", "llama"]
            s.begin()
            services["default", "llama"] = (Endpoint(at, "llama-1"),)
            assert [x.scrapes for x in s.pods("default", "llama")] == [()]


@pytest.mark.parametrize("page_", [page(PAGE, 500), page("not metrics {"), page("")], ids=["500", "garbage", "empty"])
async def test_a_scrape_that_fails_leaves_nothing(page_: Recorder) -> None:
    async with on_loopback(page_) as at, scraper({("default", "llama"): (Endpoint(at),)}) as s:
        await asyncio.gather(*s.begin())
        assert [pod.scrapes for pod in s.pods("default", "llama")] == [()]


async def test_a_pod_that_is_away_does_not_hurt_the_others() -> None:
    async with on_loopback(page(PAGE)) as at:
        services = {("default", "llama"): (Endpoint(at, "a"), Endpoint(closed_address(), "b"))}
        async with scraper(services) as s:
            await asyncio.gather(*s.begin())
            assert {pod.name: len(pod.scrapes) for pod in s.pods("default", "llama")} == {"a": 1, "b": 0}


async def test_a_slow_pod_is_asked_once_at_a_time() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        asked.set()
        await go_on.wait()
        await start(send, 200, "text/plain")
        await piece(send, PAGE.encode(), more=False)

    slow = Recorder(answer)
    async with on_loopback(slow) as at, scraper({("default", "llama"): (Endpoint(at),)}) as s:
        first = s.begin()
        await asked.wait()
        assert s.begin() == first
        go_on.set()
        await asyncio.gather(*first)
        assert len(slow.requests) == 1
