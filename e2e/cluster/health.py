"""Whether the cluster is well: what is asked of it, in the order in which it becomes so."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence

from e2e.cluster import components, processes
from e2e.cluster.components import GPUS, NODE, NODE_IP, PUSH_REGISTRY, kubectl
from e2e.cluster.shell import CommandError, Shell, tail, until
from e2e.cluster.state import State

HEALTH = {"the registry": f"http://{PUSH_REGISTRY}/v2/", "the DNS server": f"http://{NODE_IP}:8080/health"}


def unready_api(shell: Shell, state: State) -> str:
    if died := dead(state, ("etcd", "kube-apiserver", "containerd", "registry")):
        return died
    return "" if shell.succeeds(*kubectl(state), "get", "--raw", "/readyz", seconds=5) else "the API server"


def dead(state: State, names: Sequence[str]) -> str:
    """Raises CommandError for a daemon that has ended, with its last words."""
    running = {process.name for process in processes.marked() if process.is_daemon and process.root == str(state.root)}
    for name in names:
        if name not in running:
            log = state.log / f"{name}.log"
            raise CommandError(f"{name} has ended; its log is {log}\n{tail(log)}")
    return ""


def wait_healthy(shell: Shell, state: State, *, seconds: float) -> None:
    until(lambda: unwell(shell, state), seconds=seconds)


def unwell(shell: Shell, state: State) -> str:
    """What is not as it should be, in the order in which it becomes so."""
    dead(state, [daemon.name for daemon in components.daemons(state)])
    if missing := unready_api(shell, state) or unready_node(shell, state):
        return missing
    for namespace in ("default", "kube-system"):  # without it no pod is admitted there
        if not shell.succeeds(*kubectl(state), "get", "serviceaccount", "default", f"--namespace={namespace}"):
            return f"the service account of namespace {namespace}"
    for name, address in HEALTH.items():
        if not answers(address):
            return f"{name} at {address}"
    return ""


def answers(address: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5):
            return True
    except OSError:
        return False


def unready_node(shell: Shell, state: State) -> str:
    """Sets the node's capacity of accelerators, which a restarted kubelet forgets."""
    asked = "{.status.conditions[?(@.type=='Ready')].status} {.status.capacity.nvidia\\.com/gpu}"
    try:
        words = shell.read(*kubectl(state), "get", "node", NODE, "-o", f"jsonpath={asked}", seconds=10).split()
    except CommandError:
        return f"node {NODE} to register"
    if words[:1] != ["True"]:
        return f"node {NODE} to be Ready"
    if words[1:] != [str(GPUS)]:
        parts = ("capacity", "allocatable")
        patch = [{"op": "add", "path": f"/status/{part}/nvidia.com~1gpu", "value": str(GPUS)} for part in parts]
        options = ("--subresource=status", "--type=json", "-p", json.dumps(patch))
        shell.run(*kubectl(state), "patch", "node", NODE, *options, seconds=10)
        return f"node {NODE} to show its accelerators"
    return ""
