"""What /metrics shows: the names that autoscalers and dashboards read, and our own under forebay_."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from forebay_runtime.request import FinishReason

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LATENCY = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75),
    *(1.0, 1.5, 2.5, 3.5, 5.0, 7.5, 10.0, 15.0, 25.0, 40.0, 60.0, 120.0, 300.0),
)
_PROMPT_CLASSES = ((256, "short"), (2048, "medium"))  # tokens, at most


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine says at the time of a scrape."""

    num_running: int
    num_waiting: int
    kv_cache_usage: float
    prefix_cache_queries: int
    prefix_cache_hits: int
    num_preemptions: int
    num_draft_tokens: int
    num_accepted_tokens: int
    num_steps: int
    draining: bool


class Metrics:
    """Counters of one model. Tokens are counted as they are given out, so that the sums are those of the usages."""

    def __init__(self, model_name: str, version: str, load: Callable[[], Load]) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        names = {"labelnames": ["model_name"], "registry": self._registry}
        self._prompt_tokens = Counter("vllm:prompt_tokens", "Prompt tokens taken in.", **names).labels(model_name)
        self._generation_tokens = Counter("vllm:generation_tokens", "Tokens given out.", **names).labels(model_name)
        success = Counter(
            "vllm:request_success",
            "Outputs that have ended, by why.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        self._finished = {reason: success.labels(model_name, reason.value) for reason in FinishReason}
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", model_name)
        self._itl = self._histogram("vllm:inter_token_latency_seconds", "From token to token.", model_name)
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", model_name)
        self._queue = self._histogram("vllm:request_queue_time_seconds", "From arrival to the first step.", model_name)
        by_class = Histogram(
            "forebay_time_to_first_token_seconds",
            "From arrival to the first token, by length of the prompt: short to 256 tokens, medium to 2048, long.",
            ["model_name", "prompt_class"],
            buckets=_LATENCY,
            registry=self._registry,
        )
        self._ttft_by_class = {c: by_class.labels(model_name, c) for c in ("short", "medium", "long")}
        self._registry.register(_LoadCollector(model_name, version, load))
        ProcessCollector(registry=self._registry)

    def exposition(self) -> bytes:
        text: bytes = generate_latest(self._registry)
        return text

    def prompt(self, num_tokens: int) -> None:
        self._prompt_tokens.inc(num_tokens)

    def first_token(self, seconds: float, queue_seconds: float, num_prompt_tokens: int) -> None:
        self._ttft.observe(seconds)
        self._queue.observe(queue_seconds)
        kind = next((c for most, c in _PROMPT_CLASSES if num_prompt_tokens <= most), "long")
        self._ttft_by_class[kind].observe(seconds)

    def tokens(self, count: int) -> None:
        self._generation_tokens.inc(count)

    def inter_token(self, seconds: float, count: int) -> None:
        """`count` tokens came together `seconds` after the one before them: each took its share."""
        for _ in range(count):
            self._itl.observe(seconds / count)

    def finished(self, reason: FinishReason, seconds: float) -> None:
        self._finished[reason].inc()
        if reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._e2e.observe(seconds)

    def _histogram(self, name: str, text: str, model_name: str) -> Histogram:
        return Histogram(name, text, ["model_name"], buckets=_LATENCY, registry=self._registry).labels(model_name)


class _LoadCollector:
    """Reads the engine when asked, so that a gauge is never older than its scrape."""

    def __init__(self, model_name: str, version: str, load: Callable[[], Load]) -> None:
        self._model_name, self._version, self._load = model_name, version, load

    def collect(self) -> Iterator[Metric]:
        load = self._load()
        yield self._gauge("vllm:num_requests_running", "Sequences in the running batch.", load.num_running)
        yield self._gauge("vllm:num_requests_waiting", "Sequences that wait for a place.", load.num_waiting)
        yield self._gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", load.kv_cache_usage)
        yield self._counter("vllm:prefix_cache_queries", "Prompt tokens looked up.", load.prefix_cache_queries)
        yield self._counter("vllm:prefix_cache_hits", "Prompt tokens found cached.", load.prefix_cache_hits)
        yield self._counter("vllm:num_preemptions", "Sequences put back to waiting.", load.num_preemptions)
        yield self._counter("vllm:spec_decode_num_draft_tokens", "Draft tokens verified.", load.num_draft_tokens)
        yield self._counter("vllm:spec_decode_num_accepted_tokens", "Of these, accepted.", load.num_accepted_tokens)
        yield self._counter("forebay_engine_steps", "Steps the engine has ended.", load.num_steps)
        yield self._gauge("forebay_draining", "1 while the server ends what runs and takes nothing new.", load.draining)
        build = GaugeMetricFamily("forebay_build_info", "The version that serves.", labels=["model_name", "version"])
        build.add_metric([self._model_name, self._version], 1)
        yield build

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["model_name"])
        family.add_metric([self._model_name], float(value))
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=["model_name"])
        family.add_metric([self._model_name], float(value))
        return family
