"""Whose CPU time it is: a one-node cluster's programs, the operator, this one, and the machine's besides."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = (
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
    "containerd",
)
STOLEN = "stolen"
TICKS = os.sysconf("SC_CLK_TCK")


def seconds(operator: int | None) -> dict[str, float]:
    """Of CPU so far, by program; `operator` is its process."""
    named = {os.getpid(): "this bench"} | ({operator: "operator"} if operator else {})
    found = dict.fromkeys((*PROGRAMS, *named.values()), 0.0)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = named.get(int(process.name)) or _program(process)
            if name in found:
                found[name] += of(process)
    busy, stolen = _machine()
    return found | {"others": busy - sum(found.values()), STOLEN: stolen}


def of(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def told(before: Mapping[str, float], after: Mapping[str, float], wall: float) -> str:
    """A line: the larger shares first, and how much of the cores it was."""
    spent = {name: now - before.get(name, 0.0) for name, now in after.items()}
    parts = sorted(((s, name) for name, s in spent.items() if s >= 0.1), reverse=True)
    cores = os.cpu_count() or 1
    busy = sum(s for name, s in spent.items() if name != STOLEN) / wall / cores
    return ", ".join(f"{name} {s:.1f}" for s, name in parts) + f" s of CPU; {cores} cores {busy:.0%} busy"


def _program(process: Path) -> str:
    return (process / "cmdline").read_text().partition("\0")[0].rpartition("/")[2]


def _machine() -> tuple[float, float]:
    """Busy in any way (user, nice, system, irq, softirq), and taken away by whom the machine is a guest of."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return sum(fields[i] for i in (0, 1, 2, 5, 6)) / TICKS, fields[7] / TICKS
