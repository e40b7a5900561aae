"""What /metrics shows: the names that autoscalers and dashboards read, and our own under forebay_."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from forebay_runtime.request import FinishReason
from forebay_runtime.server.histogram import Histogram

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PROMPT_CLASSES = ((256, "short"), (2048, "medium"))  # tokens, at most

Value = int | float | Histogram


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
    """Of one model; in the event loop's thread alone. Tokens are counted as they are given out, so that the sums are
    those of the usages. A gauge is read from the engine when asked for, never older than its scrape.
    """

    def __init__(self, model_name: str, version: str, load: Callable[[], Load]) -> None:
        self._model_name, self._version, self._load = model_name, version, load
        self._prompt_tokens = self._generation_tokens = 0
        self._finished = dict.fromkeys(FinishReason, 0)
        self._ttft, self._itl, self._e2e, self._queue = Histogram(), Histogram(), Histogram(), Histogram()
        self._ttft_by_class = {kind: Histogram() for kind in ("short", "medium", "long")}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def exposition(self) -> bytes:
        text: bytes = generate_latest(self._registry)
        return text

    def prompt(self, num_tokens: int) -> None:
        self._prompt_tokens += num_tokens

    def first_token(self, seconds: float, queue_seconds: float, num_prompt_tokens: int) -> None:
        self._ttft.observe(seconds)
        self._queue.observe(queue_seconds)
        kind = next((c for most, c in _PROMPT_CLASSES if num_prompt_tokens <= most), "long")
        self._ttft_by_class[kind].observe(seconds)

    def tokens(self, count: int) -> None:
        self._generation_tokens += count

    def inter_token(self, seconds: float, count: int) -> None:
        """`count` tokens came together `seconds` after the one before them: each took its share."""
        self._itl.observe(seconds / count, count)

    def finished(self, reason: FinishReason, seconds: float) -> None:
        self._finished[reason] += 1
        if reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._e2e.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """prometheus_client asks for this with each exposition."""
        counter, gauge, histogram, load = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, self._load()
        for kind, name, text, value in (
            (gauge, "vllm:num_requests_running", "Sequences in the running batch.", load.num_running),
            (gauge, "vllm:num_requests_waiting", "Sequences that wait for a place.", load.num_waiting),
            (gauge, "vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", load.kv_cache_usage),
            (counter, "vllm:prompt_tokens", "Prompt tokens taken in.", self._prompt_tokens),
            (counter, "vllm:generation_tokens", "Tokens given out.", self._generation_tokens),
            (counter, "vllm:prefix_cache_queries", "Prompt tokens looked up.", load.prefix_cache_queries),
            (counter, "vllm:prefix_cache_hits", "Prompt tokens found cached.", load.prefix_cache_hits),
            (counter, "vllm:num_preemptions", "Sequences put back to waiting.", load.num_preemptions),
            (counter, "vllm:spec_decode_num_draft_tokens", "Draft tokens verified.", load.num_draft_tokens),
            (counter, "vllm:spec_decode_num_accepted_tokens", "Of these, accepted.", load.num_accepted_tokens),
            (histogram, "vllm:time_to_first_token_seconds", "From arrival to the first token.", self._ttft),
            (histogram, "vllm:inter_token_latency_seconds", "From token to token.", self._itl),
            (histogram, "vllm:e2e_request_latency_seconds", "From arrival to the last token.", self._e2e),
            (histogram, "vllm:request_queue_time_seconds", "From arrival to the first step.", self._queue),
            (counter, "forebay_engine_steps", "Steps the engine has ended.", load.num_steps),
            (gauge, "forebay_draining", "1 while the server ends what runs and takes nothing new.", load.draining),
        ):
            yield self._family(kind, name, text, [((), value)], ())
        finished = {(reason.value,): count for reason, count in self._finished.items()}
        yield self._family(
            counter, "vllm:request_success", "Outputs that have ended, by why.", finished.items(), ("finished_reason",)
        )
        yield self._family(
            histogram,
            "forebay_time_to_first_token_seconds",
            "From arrival to the first token, by length of the prompt: short to 256 tokens, medium to 2048, long.",
            [((kind,), value) for kind, value in self._ttft_by_class.items()],
            ("prompt_class",),
        )
        build = [((self._version,), 1)]
        yield self._family(gauge, "forebay_build_info", "The version that serves.", build, ("version",))

    def _family(
        self,
        family: type[Metric],
        name: str,
        text: str,
        values: Iterable[tuple[tuple[str, ...], Value]],
        labels: tuple[str, ...],
    ) -> Metric:
        """Each value under the model's name and its own labels."""
        metric = family(name, text, labels=["model_name", *labels])
        for own, value in values:
            if isinstance(value, Histogram):
                metric.add_metric([self._model_name, *own], value.buckets(), value.sum)
            else:
                metric.add_metric([self._model_name, *own], float(value))
        return metric
