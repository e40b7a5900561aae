"""What the gateway counts, as Prometheus text."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

disable_created_metrics()

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TAIL_BYTES = 4096


class Telemetry:
    """One gateway's metrics. Labels carry served models only, never a name that a client made up."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        p = {"namespace": "forebay", "subsystem": "gateway", "registry": self.registry}
        by = ["model"]
        self.in_flight = Gauge("requests_in_flight", "Requests that are being answered now.", by, **p)
        self.endpoints = Gauge("ready_endpoints", "Endpoints that take requests now.", by, **p)
        self.draining = Gauge("draining", "1 once the gateway was told to end.", **p)
        self.requests = Counter("requests", "Requests answered, by status.", ["model", "status"], **p)
        self.failed_attempts = Counter(
            "failed_attempts", "Attempts at an endpoint that failed before a byte went back.", ["model", "reason"], **p
        )
        self.abandoned = Counter("abandoned", "Requests whose client went away.", by, **p)
        self.broken = Counter("broken", "Answers that the endpoint broke off after they had begun.", by, **p)
        self.prompt = Counter(
            "prompt_tokens", "Prompt tokens by the usage in answers; a stream without usage adds none.", by, **p
        )
        self.generation = Counter(
            "generation_tokens", "Generated tokens by the usage in answers; a stream without usage adds none.", by, **p
        )
        self.first_byte = Histogram(
            "time_to_first_byte_seconds", "From the whole request to the first byte back.", by, buckets=SECONDS, **p
        )
        self.duration = Histogram(
            "request_duration_seconds", "From the whole request to the last byte back.", by, buckets=SECONDS, **p
        )

    def render(self) -> bytes:
        return bytes(generate_latest(self.registry))

    def count_usage(self, model: str, usage: dict[str, Any] | None) -> None:
        """In the words of chats and completions, or of responses and messages."""
        for counter, keys in (
            (self.prompt, ("prompt_tokens", "input_tokens", "cache_read_input_tokens")),
            (self.generation, ("completion_tokens", "output_tokens")),
        ):
            counts = [(usage or {}).get(key) for key in keys]
            if count := sum(c for c in counts if isinstance(c, int) and c > 0):
                counter.labels(model).inc(count)


def usage_in_json(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return _usage(body)


def usage_in_stream(tail: bytes) -> dict[str, Any] | None:
    """The last usage in the last bytes of an event stream."""
    if b'"usage"' not in tail:
        return None
    for line in reversed(tail.split(b"\n")):
        if line.startswith(b"data:") and (found := usage_in_json(line[5:])):
            return found
    return None


def _usage(body: Any) -> dict[str, Any] | None:
    if not isinstance(body, dict):
        return None
    response = body.get("response")  # the last event of a streamed response holds all of it
    usage = (response if isinstance(response, dict) else body).get("usage")
    return usage if isinstance(usage, dict) else None
