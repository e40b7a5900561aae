"""Takes away what a cluster leaves on the machine, whether it was ended in order or cut off anywhere.

The order matters: processes first, since they hold mounts and namespaces; mounts next, since a folder must never be
deleted through one; then names, links, cgroups and at last the files.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from e2e.cluster import processes
from e2e.cluster.components import CGROUP, CNI_NETWORK, LINK, NETNS_FILE, PODS, SERVICES
from e2e.cluster.network import has_link, hierarchies
from e2e.cluster.shell import CommandError, Shell, until
from e2e.cluster.state import State

MNT_DETACH = 2


def mounts_below(mounts: str, folders: Iterable[Path]) -> list[str]:
    """The mount points at or below `folders`, the innermost first. `mounts`: the text of /proc/mounts."""
    points = [line.split()[1].encode().decode("unicode_escape") for line in mounts.splitlines() if line.strip()]
    roots = [str(folder) for folder in folders]
    ours = [p for p in points if any(p == root or p.startswith(root + "/") for root in roots)]
    return sorted(ours, key=lambda point: (-point.count("/"), point))


def dead_sockets(sockets: Iterable[Path], unix: str) -> list[Path]:
    """Socket files that nobody listens on any more. `unix`: the text of /proc/net/unix."""
    alive = {line.split()[-1] for line in unix.splitlines()[1:] if line.strip()}
    return [path for path in sockets if str(path) not in alive]


def take_away(shell: Shell, state: State) -> None:
    """Everything but the programs and images. Raises CommandError, naming it, if something withstands."""
    stop_processes(state)
    unmount([state.cluster, state.images / "containerd", NETNS_FILE])
    NETNS_FILE.unlink(missing_ok=True)
    if has_link(shell):
        shell.run("ip", "link", "delete", LINK, seconds=20)
    for network in (PODS, SERVICES):
        if shell.read("ip", "route", "show", network, seconds=10).strip():
            shell.run("ip", "route", "delete", network, seconds=10)
    remove_cgroups()
    remove_traces(state)
    if still := mounts_below(Path("/proc/mounts").read_text(), [state.cluster]):
        raise CommandError(f"still mounted, so {state.cluster} is left as it is: {', '.join(still[:5])}")
    shutil.rmtree(state.cluster, ignore_errors=True)
    if state.cluster.exists():
        raise CommandError(f"cannot delete {state.cluster}: {[str(p) for p in state.cluster.rglob('*')][:3]}")


def sweep(state: State) -> None:
    """What a cut-off run was in the middle of. The caller holds the machine's lock, so it is nobody's any more."""

    def commands() -> Iterator[int]:
        return (p.pid for p in processes.marked() if p.root == str(state.root) and p.role != processes.DAEMON)

    if left := processes.kill_all(commands):
        raise CommandError(f"these processes of an earlier run do not end: {', '.join(map(str, left))}")
    unmount([state.images / "buildah", state.scratch])
    shutil.rmtree(state.scratch, ignore_errors=True)
    state.scratch.mkdir(parents=True)


def stop_processes(state: State) -> None:
    withstanding = processes.kill_all(lambda: ours(state))
    if withstanding:
        raise CommandError(f"these processes do not end: {', '.join(map(str, withstanding))}")


def ours(state: State) -> Iterator[int]:
    """The daemons with all that they started, and the processes in the pods' cgroups."""
    for process in processes.marked():
        if process.root == str(state.root) and process.role == processes.DAEMON:
            yield process.pid
    for group in cgroups():
        yield from pids_in(group)


def cgroups() -> list[Path]:
    """Ours, the innermost first."""
    found = []
    for hierarchy in hierarchies():
        top = hierarchy / CGROUP
        found += [path for path, _, _ in os.walk(top, topdown=False)]
    return [Path(path) for path in found]


def pids_in(group: Path) -> list[int]:
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split() if int(pid) > 0]
    except OSError:
        return []


def unmount(folders: Iterable[Path]) -> None:
    """Lazily: a mount that something else still sees goes away from here at once, and altogether when it lets go."""
    folders = list(folders)
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(5):
        points = mounts_below(Path("/proc/mounts").read_text(), folders)
        if not points:
            return
        for point in points:
            libc.umount2(os.fsencode(point), MNT_DETACH)


def remove_cgroups() -> None:
    """A cgroup stays busy for a moment after its last process has ended."""

    def remaining() -> str:
        for group in cgroups():
            try:
                group.rmdir()
            except OSError:
                continue
        left = cgroups()
        return f"cgroup {left[0]} is in use" if left else ""

    until(remaining, seconds=10, every=0.1)


def remove_traces(state: State) -> None:
    """What Kubernetes' and containerd's parts put at fixed places of the machine, as far as it is of this cluster."""
    shims = Path("/run/containerd/s")
    for socket in dead_sockets(shims.glob("*"), Path("/proc/net/unix").read_text()):
        socket.unlink(missing_ok=True)
    for result in Path("/var/lib/cni/results").glob(f"{CNI_NETWORK}-*"):
        result.unlink(missing_ok=True)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and os.readlink(link).startswith(str(state.cluster)):
            link.unlink(missing_ok=True)
