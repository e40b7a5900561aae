"""What an engine's container runs: the one thing that engines tell and that children put into pods. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Program:
    """`serve` are the arguments that serve the model in `model_directory`; `fetch`, those that bring it there."""

    command: tuple[str, ...]
    serve: tuple[str, ...]
    fetch: tuple[str, ...]
    port: int
    model_directory: str
    probes: dict[str, Any]
