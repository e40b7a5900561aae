"""Brings the one-node cluster up: decides from what is seen whether it is kept, completed or made anew, and does it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.cluster import certificates, components, leftovers, network, pause, processes, settings
from e2e.cluster.components import NETNS_FILE, Daemon, ctr, kubectl
from e2e.cluster.health import unready_api, wait_healthy
from e2e.cluster.processes import Process
from e2e.cluster.shell import MARK, CommandError, Shell, mark, until
from e2e.cluster.state import SetupError, State


@dataclass(frozen=True, slots=True)
class Seen:
    processes: tuple[Process, ...]
    namespace: int | None
    """Inode of the node's network namespace, None without one."""
    complete: bool
    """The cluster's files were all written."""


@dataclass(frozen=True, slots=True)
class Keep:
    pass


@dataclass(frozen=True, slots=True)
class Complete:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rebuild:
    reason: str


Decision = Keep | Complete | Rebuild


def decide(names: Sequence[str], root: str, key: str, seen: Seen) -> Decision:
    """A cluster that is all there is kept, one that lost a process gets it back, anything else is made anew."""
    found = [process for process in seen.processes if process.is_daemon and process.root == root]
    if not found:
        return Rebuild("none runs")
    if not seen.complete:
        return Rebuild("an earlier run was cut off while making it")
    if any(process.key != key for process in found):
        return Rebuild("its recipe has changed")
    if seen.namespace is None or any(process.namespace != seen.namespace for process in found):
        return Rebuild("its network namespace is gone")
    running = [process.name for process in found]
    if twice := sorted({name for name in running if running.count(name) > 1}):
        return Rebuild(f"it has {twice[0]} twice")
    missing = tuple(name for name in names if name not in running)
    return Complete(missing) if missing else Keep()


def foreign(seen: Seen, root: str) -> str:
    """The state folder of another cluster that has the machine's one place for it, the network namespace; or empty."""
    others = (process for process in seen.processes if process.is_daemon and process.root != root)
    return next((process.root for process in others if process.namespace == seen.namespace), "")


def look(state: State) -> Seen:
    namespace = NETNS_FILE.stat().st_ino if NETNS_FILE.exists() else None
    return Seen(processes.marked(), namespace, (state.cluster / "complete").exists())


def up(shell: Shell, state: State, binaries: str, say: Callable[[str], None]) -> str:
    files = settings.files(state)
    key = components.key(state, binaries, files)
    all_daemons = components.daemons(state)
    seen = look(state)
    if other := foreign(seen, str(state.root)):
        raise SetupError(
            f"the cluster of another state folder runs on this machine; first: FOREBAY_STATE={other} make down"
        )
    decision = decide([daemon.name for daemon in all_daemons], str(state.root), key, seen)
    reason = decision.reason if isinstance(decision, Rebuild) else mend(shell, state, key, decision, say)
    if reason:
        say(f"made anew: {reason}")
        make(shell, state, key, all_daemons)
        return "new"
    return f"completed with {', '.join(decision.names)}" if isinstance(decision, Complete) else "kept"


def mend(shell: Shell, state: State, key: str, decision: Keep | Complete, say: Callable[[str], None]) -> str:
    """Starts what is missing. Returns why that did not help; empty if all is well."""
    if isinstance(decision, Complete):
        say(f"starting again: {', '.join(decision.names)}")
        start(state, key, [daemon for daemon in components.daemons(state) if daemon.name in decision.names])
    try:
        network.ensure(shell)
        network.ensure_cgroups()
        wait_healthy(shell, state, seconds=60)
    except CommandError as error:
        return f"it does not get well: {str(error).splitlines()[0]}"
    return ""


def make(shell: Shell, state: State, key: str, all_daemons: Sequence[Daemon]) -> None:
    leftovers.take_away(shell, state)
    network.ensure(shell)
    network.ensure_cgroups()
    certificates.make(shell, state.cluster / "pki")
    for path, text in settings.files(state).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (state.images / "registry").mkdir(parents=True, exist_ok=True)
    first = ("etcd", "kube-apiserver", "registry", "containerd")
    start(state, key, [daemon for daemon in all_daemons if daemon.name in first])
    prepare_containerd(shell, state)
    until(lambda: unready_api(shell, state), seconds=120)
    start(state, key, [daemon for daemon in all_daemons if daemon.name not in first])
    shell.run(*kubectl(state), "apply", "-f", "-", seconds=30, stdin=settings.first_objects())
    wait_healthy(shell, state, seconds=180)
    (state.cluster / "complete").touch()


def start(state: State, key: str, wanted: Sequence[Daemon]) -> None:
    """In the node's network namespace, by nsenter: `ip netns exec` would hide the kubelet's mounts from containerd."""
    state.log.mkdir(parents=True, exist_ok=True)
    for daemon in wanted:
        environ = {
            "PATH": f"{state.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "OTEL_TRACES_EXPORTER": "none",
            MARK: mark(state.root, processes.DAEMON, daemon.name, key),
        }
        with (state.log / f"{daemon.name}.log").open("w") as log:
            subprocess.Popen(
                ["nsenter", f"--net={NETNS_FILE}", *daemon.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=state.cluster,
                start_new_session=True,
            )


def prepare_containerd(shell: Shell, state: State) -> None:
    """Images are kept from one cluster to the next; containers of the last one are not."""
    until(lambda: "" if shell.succeeds(*ctr(state), "version") else "containerd", seconds=30)
    for noun in ("containers", "sandboxes", "leases"):
        rows = shell.read(*ctr(state), noun, "list", seconds=20).splitlines()[1:]
        if names := [row.split()[0] for row in rows if row.strip()]:
            shell.run(*ctr(state), noun, "remove", *names, seconds=60)
    state.scratch.mkdir(parents=True, exist_ok=True)
    archive = state.scratch / "pause.tar"
    pause.write_archive(state.bin / "pause", archive)
    shell.run(*ctr(state), "images", "import", "--all-platforms", archive, seconds=60)
