"""What this process may use of its machine: its cgroup's limits, where they are smaller."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def cpus(cgroup: Path = _CGROUP) -> float:
    """CPUs by affinity and quota."""
    available = float(len(os.sched_getaffinity(0)))
    quota = _words(cgroup / "cpu.max")  # version 2
    if len(quota) == 2 and quota[0] != "max":
        return min(available, int(quota[0]) / int(quota[1]))
    quota = _words(cgroup / "cpu" / "cpu.cfs_quota_us") + _words(cgroup / "cpu" / "cpu.cfs_period_us")  # version 1
    if len(quota) == 2 and int(quota[0]) > 0:
        return min(available, int(quota[0]) / int(quota[1]))
    return available


def available_memory(cgroup: Path = _CGROUP, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can still be taken without swapping or being killed."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    for limit, used, stat in (
        (cgroup / "memory.max", cgroup / "memory.current", cgroup / "memory.stat"),
        (cgroup / "memory" / "memory.limit_in_bytes", cgroup / "memory" / "memory.usage_in_bytes", None),
    ):
        words = _words(limit)
        if words and words[0] != "max":
            reclaimable = _inactive_file(stat) if stat is not None else 0
            available = min(available, int(words[0]) - int(_words(used)[0]) + reclaimable)
    return max(available, 0)


def held_memory(status: Path = Path("/proc/self/status")) -> int:
    """Bytes that this process has taken and no file stands behind."""
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def _inactive_file(stat: Path) -> int:
    """File pages that the kernel drops before it kills anyone: mapped weights among them."""
    words = _words(stat)
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    return int(pairs.get("inactive_file", 0))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
