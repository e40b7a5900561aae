"""What is done with the cluster that is found on the machine."""

from __future__ import annotations

import dataclasses

import pytest

from e2e.cluster.cluster import Complete, Decision, Keep, Rebuild, Seen, decide, foreign
from e2e.cluster.processes import DAEMON, Process

NAMES = ("etcd", "kube-apiserver", "containerd")
ROOT, KEY, NAMESPACE = "/state", "k1", 7


def daemon(name: str, key: str = KEY, root: str = ROOT, namespace: int = NAMESPACE) -> Process:
    return Process(1, f"{root}/bin/{name}", root, DAEMON, name, key, namespace)


def seen(*processes: Process, namespace: int | None = NAMESPACE, complete: bool = True) -> Seen:
    return Seen(processes, namespace, complete)


ALL = tuple(daemon(name) for name in NAMES)
SHIM = dataclasses.replace(ALL[2], program="/state/bin/containerd-shim-runc-v2")
STARTING = dataclasses.replace(ALL[0], program="nsenter")
CASES: list[tuple[str, Seen, Decision]] = [
    ("all there", seen(*ALL), Keep()),
    ("one has ended", seen(*ALL[:2]), Complete(("containerd",))),
    ("one has ended, its children have not", seen(*ALL[:2], SHIM), Complete(("containerd",))),
    ("children of one that lives", seen(*ALL, SHIM, SHIM), Keep()),
    ("one is just being started", seen(STARTING, *ALL[1:]), Keep()),
    ("nothing", seen(namespace=None, complete=False), Rebuild("none runs")),
    ("processes killed, all else left", seen(), Rebuild("none runs")),
    ("only a shim left", seen(SHIM), Rebuild("none runs")),
    ("only another state's", seen(*(daemon(name, root="/other") for name in NAMES)), Rebuild("none runs")),
    ("cut off while made", seen(*ALL, complete=False), Rebuild("an earlier run was cut off while making it")),
    ("older recipe", seen(*ALL[:2], daemon("containerd", key="k0")), Rebuild("its recipe has changed")),
    ("namespace deleted", seen(*ALL, namespace=None), Rebuild("its network namespace is gone")),
    ("namespace made again", seen(*ALL, namespace=8), Rebuild("its network namespace is gone")),
    ("two of a kind", seen(*ALL, daemon("etcd")), Rebuild("it has etcd twice")),
]


@pytest.mark.parametrize(("found", "decision"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(found: Seen, decision: Decision) -> None:
    assert decide(NAMES, ROOT, KEY, found) == decision


def test_a_cluster_of_another_state_folder_is_noticed() -> None:
    assert foreign(seen(daemon("etcd", root="/other")), ROOT) == "/other"
    assert foreign(seen(daemon("etcd", root="/other", namespace=9)), ROOT) == ""
    assert foreign(seen(*ALL), ROOT) == ""
