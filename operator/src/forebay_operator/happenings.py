"""What is worth an Event: what a person who describes the resource wants to read, once each. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from forebay_operator.resource import Condition, InferenceService, Status


class Verb(Enum):
    """What became of a child."""

    MADE = "made"
    CHANGED = "changed"
    PUT_BACK = "put back"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    verb: Verb
    kind: str


@dataclass(frozen=True, slots=True)
class Happening:
    """`warning` wants a person's eye."""

    reason: str
    message: str
    warning: bool = False


REASONS = {Verb.MADE: "Created", Verb.CHANGED: "Updated", Verb.PUT_BACK: "Healed", Verb.REMOVED: "Removed"}


def happenings(resource: InferenceService, status: Status, changes: Iterable[Change]) -> list[Happening]:
    """What came of one pass."""
    before = resource.status
    return [
        *_of_children(list(changes)),
        *_of_scale(before, status),
        *_of_revision(before, status),
        *_of_readiness(before, status),
        *_of_trouble(before, status),
    ]


def _of_children(changes: list[Change]) -> list[Happening]:
    found = []
    for verb in Verb:
        if kinds := sorted(c.kind for c in changes if c.verb is verb):
            why = " after a change by another" if verb is Verb.PUT_BACK else ""
            found.append(Happening(REASONS[verb], f"{verb.value}: {', '.join(kinds)}{why}"))
    return found


def _of_scale(before: Status | None, after: Status) -> list[Happening]:
    steps = after.last_scale[:1]
    if not steps or (before and before.last_scale[:1] == steps):
        return []
    return [Happening("Scaled", f"replicas {steps[0].before} -> {steps[0].to}: {steps[0].why}")]


def _of_revision(before: Status | None, after: Status) -> list[Happening]:
    if before is None or not before.revision or before.revision == after.revision:
        return []
    return [Happening("RollingOut", f"revision {before.revision} -> {after.revision}")]


def _of_readiness(before: Status | None, after: Status) -> list[Happening]:
    ready = after.condition("Ready")
    if ready is None or ready.status != "True" or _status_of(before, "Ready") == "True":
        return []
    return [Happening("Ready", ready.message)]


def _of_trouble(before: Status | None, after: Status) -> list[Happening]:
    was, now = before.condition("Degraded") if before else None, after.condition("Degraded")
    if now is None or (was and (was.status, was.reason) == (now.status, now.reason)):
        return []
    if now.status == "True":
        return [Happening(now.reason, now.message, warning=True)]
    return [Happening("Recovered", f"no longer: {was.reason}")] if was and _bad(was) else []


def _bad(condition: Condition) -> bool:
    return condition.status == "True"


def _status_of(status: Status | None, type: str) -> str | None:
    found = status.condition(type) if status else None
    return found.status if found else None
