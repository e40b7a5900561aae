"""What an engine's container runs and tells: the one thing that engines tell and that children, gateway and adapter
use of them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PORT = 8000
MODEL_DIRECTORY = "/model"
MODEL_VOLUME = "model"
LEADER, RANK = "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"  # what a LeaderWorkerSet tells its pods
RUNTIME = ("forebay-runtime",)


FETCHER = "fetch"  # the container that does so


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

    `pre_stop_seconds`: how long a pod that is told to end goes on before its process hears of it. An engine that
    finishes its requests on SIGTERM needs but a moment, until every proxy knows; one that drops them needs it all.
    """

    command: tuple[str, ...]
    serve: tuple[str, ...]
    probes: dict[str, Any]
    pre_stop_seconds: int
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
