"""The node's network: one namespace, one veth pair, two routes, and the cgroup that its pods live in.

Nothing is written into the machine's own firewall.
"""

from __future__ import annotations

import os
from pathlib import Path

from e2e.cluster.components import CGROUP, HOST_IP, LINK, NETNS, NETNS_FILE, NODE_IP, PODS, SERVICES
from e2e.cluster.shell import Shell

CGROUPS = Path("/sys/fs/cgroup")


def ensure(shell: Shell) -> None:
    """Makes what is missing. The namespace counts as there only if the link leads into it."""
    if not NETNS_FILE.exists():
        shell.run("ip", "netns", "add", NETNS, seconds=10)
    if not has_link(shell):
        shell.run("ip", "link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", NETNS, seconds=10)
        shell.run("ip", "-n", NETNS, "addr", "add", f"{NODE_IP}/24", "dev", "eth0", seconds=10)
    shell.run("ip", "addr", "replace", f"{HOST_IP}/24", "dev", LINK, seconds=10)
    shell.run("ip", "link", "set", LINK, "up", seconds=10)
    for link in ("lo", "eth0"):
        shell.run("ip", "-n", NETNS, "link", "set", link, "up", seconds=10)
    shell.run("ip", "-n", NETNS, "route", "replace", "default", "via", HOST_IP, seconds=10)
    enter = ("nsenter", f"--net={NETNS_FILE}")
    shell.run(*enter, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward", seconds=10)
    for network in (PODS, SERVICES):
        shell.run("ip", "route", "replace", network, "via", NODE_IP, seconds=10)


def has_link(shell: Shell) -> bool:
    return shell.succeeds("ip", "link", "show", LINK)


def hierarchies() -> tuple[Path, ...]:
    """Where cgroups can be made: the one folder of cgroup v2, or one for each controller of v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return (CGROUPS,)
    return tuple(
        path for path in sorted(CGROUPS.iterdir()) if (path / "cgroup.procs").exists() and not path.is_symlink()
    )


def ensure_cgroups() -> None:
    for hierarchy in hierarchies():
        group = hierarchy / CGROUP
        group.mkdir(exist_ok=True)
        if (hierarchy / "cgroup.controllers").exists() and hierarchy == CGROUPS:
            wanted = " ".join(f"+{name}" for name in (hierarchy / "cgroup.controllers").read_text().split())
            (hierarchy / "cgroup.subtree_control").write_text(wanted)
            (group / "cgroup.subtree_control").write_text(wanted)
        for file in ("cpuset.cpus", "cpuset.mems"):  # cgroup v1: a new cpuset is empty, and then useless
            if (group / file).exists() and hierarchy != CGROUPS:
                (group / file).write_text((hierarchy / file).read_text())
        for file, share in shares(os.cpu_count() or 1).items():
            if (group / file).exists():
                (group / file).write_text(str(share))


def shares(cores: int) -> dict[str, int]:
    """Weight of all pods together, for cgroup v1 and v2: that of eight busy processes for each core.

    A cgroup by itself weighs no more than one process: whatever else the machine does would starve what is served.
    """
    weight = 8 * 1024 * cores
    return {"cpu.shares": weight, "cpu.weight": min(10000, 1 + (weight - 2) * 9999 // 262142)}
