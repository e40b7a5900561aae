"""Where everything of the cluster lives: one folder outside the checkout, shared by every clone on the machine.

bin/        the cluster's programs, kubectl and helm    survives `make down`
images/     buildah's, the registry's and containerd's  survives `make down`
cluster/    keys, etcd, pods, sockets                   gone with `make down`
log/        one log per phase and per component
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
OWN_REGISTRY = "localhost:5000"
"""The registry of our own cluster, as containerd on the node sees it."""


class SetupError(Exception):
    """The user has to do something first; the message says what."""


@dataclass(frozen=True, slots=True)
class State:
    root: Path

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def cluster(self) -> Path:
        return self.root / "cluster"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def kubeconfig(self) -> Path:
        return self.cluster / "pki/admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.cluster / "containerd.sock"


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster to install on. `own`: the one that `make up` makes; else the user's."""

    kubeconfig: Path
    registry: str
    own: bool


def state_of(environ: Mapping[str, str]) -> State:
    return State(Path(environ.get("FOREBAY_STATE") or "/var/lib/forebay").absolute())


def target_of(environ: Mapping[str, str], state: State) -> Target:
    """A KUBECONFIG that names our own cluster's file means our own cluster, which may have to be made first."""
    named = environ.get("KUBECONFIG", "")
    if not named or Path(named).absolute() == state.kubeconfig:
        return Target(state.kubeconfig, OWN_REGISTRY, own=True)
    registry = environ.get("REGISTRY", "")
    if not registry:
        raise SetupError(
            f"KUBECONFIG={named} names a cluster of yours: set REGISTRY=host[:port][/path] as well, a registry that "
            "this machine can push to and that cluster can pull from (or unset KUBECONFIG to get a cluster made here)"
        )
    return Target(Path(named).absolute(), registry.rstrip("/"), own=False)
