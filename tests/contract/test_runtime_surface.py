"""What the operator, the gateway and the adapter count on in a runtime: paths, metric names, drain, last words."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forebay_operator.endpoints import Endpoint, Route, Service
from forebay_operator.gateway.keeping import MARK_HEADER, keeper, mark
from forebay_runtime.__main__ import main
from forebay_runtime.arguments import parser
from tests.support.toy_server import NAME

GAUGES = {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "forebay_draining"}
COUNTERS = {
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:request_success",
    "vllm:num_preemptions",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens",
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Toy:
    """A real server process over a model without arithmetic."""

    def __init__(self, api_key: str = "", step_seconds: float = 0.01, grace: float = 20) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        command = [sys.executable, "-m", "tests.support.toy_server", str(port), api_key, str(step_seconds), str(grace)]
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                httpx.get(self.url + "/ready", timeout=5).raise_for_status()
                return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError("the server does not come up")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def toy() -> Iterator[Toy]:
    toy = Toy()
    yield toy
    toy.end()


@pytest.fixture(scope="module")
def lasting_toy() -> Iterator[Toy]:
    toy = Toy()
    yield toy
    toy.end()


def chat(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "the mill"}]
    return {"model": NAME, "messages": messages, "max_tokens": 60, "ignore_eos": True, **fields}


def test_probes_and_scrapes_need_no_key_and_have_their_names() -> None:
    toy = Toy(api_key="secret")
    try:
        for path in ("/health", "/ready", "/version", "/metrics"):
            assert httpx.get(toy.url + path).status_code == 200
        assert httpx.get(toy.url + "/v1/models").status_code == 401
        families = {f.name: f for f in text_string_to_metric_families(httpx.get(toy.url + "/metrics").text)}
    finally:
        toy.end()
    for names, kind in ((GAUGES, "gauge"), (COUNTERS, "counter"), (HISTOGRAMS, "histogram")):
        assert {name for name in names if families[name].type == kind} == names
        assert all(s.labels["model_name"] == NAME for name in names for s in families[name].samples)
    reasons = {s.labels["finished_reason"] for s in families["vllm:request_success"].samples}
    assert reasons == {"stop", "length", "abort", "error"}
    first = min(float(s.labels["le"]) for s in families["vllm:time_to_first_token_seconds"].samples if "le" in s.labels)
    assert first == 0.001


def test_on_sigterm_streams_end_new_work_is_refused_and_the_exit_is_0(toy: Toy) -> None:
    with (
        httpx.Client(base_url=toy.url, timeout=60) as client,
        client.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as stream,
    ):
        pieces = stream.iter_text()
        text = next(pieces)
        toy.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 10
        while httpx.get(toy.url + "/ready").status_code == 200:
            assert time.monotonic() < until
        refused = httpx.post(toy.url + "/v1/chat/completions", json=chat())
        assert refused.status_code == 503
        assert refused.headers["retry-after"].isdigit()
        assert refused.json()["error"]["code"] == "draining"
        text += "".join(pieces)
    assert text.endswith("data: [DONE]\n\n")
    assert '"finish_reason":"length"' in text
    assert toy.process.wait(timeout=20) == 0


@pytest.mark.parametrize("background", [False, True])
def test_the_gateways_mark_begins_the_id_of_a_response(lasting_toy: Toy, background: bool) -> None:
    word = mark(Endpoint("10.0.0.1:8000", "llama-1"))
    asked = {"model": NAME, "input": "the mill", "max_output_tokens": 2, "background": background}
    made = httpx.post(f"{lasting_toy.url}/v1/responses", json=asked, headers={MARK_HEADER.decode(): word}).json()["id"]
    service = Route(Service("", "toy", (NAME,)), (Endpoint("10.0.0.1:8000", "llama-1"),))
    assert keeper(f"/v1/responses/{made}", {NAME: service})[1].pod == "llama-1"
    assert httpx.get(f"{lasting_toy.url}/v1/responses/{made}").status_code == 200
    wrong = httpx.post(f"{lasting_toy.url}/v1/responses", json=asked, headers={MARK_HEADER.decode(): "llama-1"})
    assert wrong.status_code == 400


def test_an_idle_server_ends_at_once_on_sigterm(toy: Toy) -> None:
    toy.process.send_signal(signal.SIGTERM)
    assert toy.process.wait(timeout=10) == 0
    with socket.create_server(("127.0.0.1", int(toy.url.rsplit(":", 1)[1]))):
        pass


def raw(toy: Toy, *parts: bytes) -> bytes:
    """Sends the parts over one connection and reads until the server closes it or falls silent."""
    host, port = toy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        received = b""
        try:
            for part in parts:
                connection.sendall(part)
            while data := connection.recv(65536):
                received += data
        except TimeoutError:
            return received + b"(open)"
        except ConnectionError:  # it was closed before it had read all
            received += connection.recv(65536)
    return received


def test_connections_are_kept_pipelined_and_closed_by_the_rules(toy: Toy) -> None:
    get = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    assert raw(toy, get + get).count(b"HTTP/1.1 200 OK") == 2
    two_lengths = (
        b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    answer = raw(toy, two_lengths + get)
    assert not answer.endswith(b"(open)")
    assert b"200 OK" not in answer
    chunked = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"200 OK" in raw(toy, chunked, b'f\r\n{"prompt": "a"}\r\n', b"0\r\n\r\n")
    long_body = b'{"prompt": "a", "x": "' + b"a" * 80_000 + b'"}'
    length = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(long_body)
    assert b"200 OK" in raw(toy, length, long_body)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([b"BLAH\r\n\r\n"], b"invalid_http"),
        ([b"GET /health HTTP/1.1\nHost: x\n\n"], b"invalid_http"),
        ([b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"], b"invalid_http"),
        ([b"CONNECT /version HTTP/1.1\r\nHost: x\r\n\r\n"], b"invalid_http"),
        ([b"POST /tokenize HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"], b"invalid_http"),
        ([b"GET /health HTTP/1.1\r\nA: ", *[b"a" * 10_000] * 60], b"head_too_large"),
        ([b"GET /health HTTP/1.1\r\n", *[b"A: b\r\n" * 2000] * 60], b"head_too_large"),
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    lasting_toy: Toy, parts: list[bytes], code: bytes
) -> None:
    answer = raw(lasting_toy, *parts)
    assert b'"code":"' + code in answer
    assert not answer.endswith(b"(open)")


COMPLETION = f'{{"model": "{NAME}", "prompt": "the mill", "max_tokens": 2}}'.encode()
POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(COMPLETION)
WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


@pytest.mark.parametrize("apart", [False, True])
def test_a_wish_for_another_protocol_is_passed_over_and_the_body_read(lasting_toy: Toy, apart: bool) -> None:
    """Java's client sends one with each request over plain HTTP."""
    parts = (POST + WISH + LENGTH, COMPLETION) if apart else (POST + WISH + LENGTH + COMPLETION,)
    assert raw(lasting_toy, *parts, POST + b"Connection: close\r\n" + LENGTH + COMPLETION).count(b"HTTP/1.1 200") == 2


def test_trailers_are_no_headers(lasting_toy: Toy) -> None:
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(COMPLETION), COMPLETION)
    late = b"X-Request-Timeout: never\r\n\r\n"
    assert raw(lasting_toy, POST + b"Connection: close\r\n" + chunked + late).startswith(b"HTTP/1.1 200")


@pytest.fixture
def own_signals() -> Iterator[None]:
    """`main` takes SIGTERM for its process, which here is the test's."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def last_words(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("forebay-runtime: ")
    return lines[-1]


@pytest.mark.parametrize(
    "argv",
    [
        ["serve", "model", "--no-such-argument"],
        ["serve", "model", "--max-num-seqs", "0"],
        ["serve", "model", "--kv-cache-memory", "2 pounds"],
        ["serve", "model", "--port", "70000"],
        ["serve", "model", "--api-key", ""],
        ["serve", "model", "--dtype", "int3"],
        ["serve"],
        ["blow"],
        [],
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(argv)
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_empty_key_in_the_environment_does_not_open_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_API_KEY", "")
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "model"])


@pytest.mark.usefixtures("own_signals")
def test_a_taken_port_is_the_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "model", "--host", "127.0.0.1", "--port", str(port)]) == 1
    assert f"127.0.0.1:{port} can't be listened on" in last_words(capsys)


@pytest.mark.usefixtures("own_signals")
def test_a_model_that_is_not_there_is_the_last_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "none")
    assert main(["serve", model, "--host", "127.0.0.1", "--port", "0"]) == 1
    assert f"{model} does not exist" in last_words(capsys)
    assert main(["serve", str(tmp_path), "--host", "127.0.0.1", "--port", "0"]) == 1
    assert str(tmp_path) in last_words(capsys)
