"""Which of several operators is at work: the rule by which a Lease changes hands. No I/O.

The clocks of two machines are never compared: a lease has expired when it has not changed for its whole duration by the
looker's own clock, and the holder stops writing a margin before anybody else can come to think so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

DURATION = 15.0  # seconds after which a lease that does not change is anybody's
LAST_WRITE = 10.0  # seconds after the last renewal was sent, until which its holder still writes
RETRY = 2.0

Lease = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A lease as one looker has followed it: the version last seen, and since when by the looker's clock."""

    version: str = ""
    since: float = field(default=0.0)

    def look(self, lease: Lease | None, now: float) -> Seen:
        version = lease["metadata"]["resourceVersion"] if lease else ""
        return self if version == self.version else replace(self, version=version, since=now)


def free(lease: Lease | None, me: str, seen: Seen, now: float) -> bool:
    """Whether `me` may take it: nobody has it, `me` has it, or its holder has let its whole duration pass."""
    if lease is None:
        return True
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    duration = float(spec.get("leaseDurationSeconds") or DURATION)
    return holder in ("", me) or now - seen.since >= duration


def taken(lease: Lease | None, me: str, name: str, namespace: str, stamp: str) -> Lease:
    """The lease in the hands of `me`; with the version of the one that it follows, so that only one taker succeeds."""
    before = (lease or {}).get("spec") or {}
    mine = before.get("holderIdentity") == me
    meta = lease["metadata"] if lease else {"name": name, "namespace": namespace}
    changes = int(before.get("leaseTransitions") or 0) + (0 if mine or lease is None else 1)
    spec = {
        "holderIdentity": me,
        "leaseDurationSeconds": int(DURATION),
        "acquireTime": before["acquireTime"] if mine else stamp,
        "renewTime": stamp,
        "leaseTransitions": changes,
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def released(lease: Lease, stamp: str) -> Lease:
    """The lease in nobody's hands: the next one need not wait."""
    return {**lease, "spec": {**lease["spec"], "holderIdentity": "", "renewTime": stamp}}
