"""What an engine's container runs and tells: the one thing that engines tell and that children, gateway and adapter
use of them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PORT = 8000
GATE, GATE_PORT, GATE_PATH = "drain-gate", 8001, "/drained"  # the container that holds back an engine's end
PROXY_SECONDS = 10  # until every proxy knows that a pod is to end, also on a node that has much to do
MODEL_DIRECTORY = "/model"
MODEL_VOLUME = "model"
LEADER, RANK = "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"  # what a LeaderWorkerSet tells its pods
RUNTIME = ("forebay-runtime",)
FETCHER = "fetch"  # the container that brings a model


def fetch_arguments(source: str, directory: str = MODEL_DIRECTORY, most: int | None = None) -> tuple[str, ...]:
    """Arguments of RUNTIME that bring a model from a hub or a bucket to a directory, for whatever engine, and tell on
    PORT how far that is. `most`: bytes that it may have there."""
    bound = () if most is None else (f"--most={most}",)
    return ("fetch", source, directory, "--host=0.0.0.0", f"--port={PORT}", *bound)


@dataclass(frozen=True, slots=True)
class Program:
    """`serve` are the arguments that serve the model in MODEL_DIRECTORY on PORT; `join` those of the other pods where
    one replica is made of several, which LEADER and RANK tell apart. `env` are variables that the engine needs and that
    the user's own may overrule.

    `held_back_by`: of an engine that drops its requests on SIGTERM, the metrics that count them: it hears of its end
    when all are zero (drain_gate.py). One that finishes them hears of it as soon as every proxy knows.
    """

    command: tuple[str, ...]
    serve: tuple[str, ...]
    probes: dict[str, Any]
    held_back_by: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shared_memory: bool = False
    join: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricNames:
    """What an engine calls the metrics that decisions need. None: it does not tell."""

    waiting: str
    running: str
    generated: str | None
    ttft: str | None  # of a histogram, in seconds

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names as they stand on the engine's page."""
        more = [self.generated] if self.generated else []
        return (self.waiting, self.running, *more, *([f"{self.ttft}_bucket"] if self.ttft else []))
