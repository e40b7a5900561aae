"""What the scheduler has counted since it was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SchedulerCounters:
    """Only ever grow. Prefix counts are tokens of prompts, each prompt once, however often it is preempted."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
