"""The cluster's programs, each built from Go modules into FOREBAY_STATE/bin, and what they are built from.

A program is built beside its place and moved there in one step; then its key is written. So a cut-off build leaves
the old program or none, never half of one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.shell import Shell
from e2e.cluster.state import SetupError, State

KUBERNETES = "1.37.2"
SOURCE = Path(__file__).parent
OWN = ("kube", "services")
"""Modules of our own below SOURCE: programs made of others' packages, with what the cluster needs of them."""
VERSION_FLAGS = " ".join(
    f"-X {package}.gitVersion=v{KUBERNETES}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
)


@dataclass(frozen=True, slots=True)
class Program:
    """`packages` at a version, or those of our `module`; each makes one file in bin/."""

    names: tuple[str, ...]
    packages: tuple[str, ...]
    module: str = ""
    cgo: bool = False
    tags: str = ""
    ldflags: str = "-s -w"
    links: tuple[str, ...] = ()
    """Other names of the first file."""


COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
PROGRAMS = (
    Program(("kube",), (".",), "kube", ldflags=f"-s -w {VERSION_FLAGS}", links=COMPONENTS),
    Program(("pause",), ("./pause",), "kube"),
    Program(
        ("containerd", "containerd-shim-runc-v2", "ctr"),
        tuple(
            f"github.com/containerd/containerd/v2/cmd/{name}@v2.4.2"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
    ),
    # containerd calls runc with seccomp profiles, which runc reads through libseccomp.
    Program(("runc",), ("github.com/opencontainers/runc@v1.5.3",), cgo=True, tags="seccomp"),
    Program(
        ("ptp", "loopback", "host-local", "portmap"),
        tuple(
            f"github.com/containernetworking/plugins/plugins/{path}@v1.10.0"
            for path in ("main/ptp", "main/loopback", "ipam/host-local", "meta/portmap")
        ),
    ),
    Program(("coredns",), ("./coredns",), "services"),
    Program(("registry",), ("./registry",), "services"),
)


def key(program: Program, source: Mapping[str, bytes]) -> str:
    """What the program is built from. `source`: the files of our modules by path, such as kube/go.mod."""
    recipe = hashlib.sha256(repr(program).encode())
    for name, content in sorted(source.items()):
        if program.module and name.startswith(f"{program.module}/"):
            recipe.update(name.encode() + b"\0" + content + b"\0")
    return recipe.hexdigest()[:16]


def key_of_all(source: Mapping[str, bytes]) -> str:
    return hashlib.sha256("".join(key(program, source) for program in PROGRAMS).encode()).hexdigest()[:16]


def stale(
    programs: tuple[Program, ...], source: Mapping[str, bytes], built: Mapping[str, str], there: frozenset[str]
) -> tuple[Program, ...]:
    """Those to build. `built`: the key that each was built from, by its first name; `there`: the names in bin/."""

    def is_current(program: Program) -> bool:
        return built.get(program.names[0]) == key(program, source) and there.issuperset(program.names + program.links)

    return tuple(program for program in programs if not is_current(program))


def read_source() -> dict[str, bytes]:
    files = [path for module in OWN for path in (SOURCE / module).rglob("*") if path.is_file()]
    return {str(path.relative_to(SOURCE)): path.read_bytes() for path in files}


def build(shell: Shell, state: State, say: Callable[[str], None]) -> str:
    keys = state.bin / ".keys"
    keys.mkdir(parents=True, exist_ok=True)
    built = {path.name: path.read_text().strip() for path in keys.iterdir()}
    source = read_source()
    wanted = stale(PROGRAMS, source, built, frozenset(os.listdir(state.bin)))
    if not wanted:
        return f"all {len(PROGRAMS)} there"
    require_go(shell)
    for program in wanted:
        say(f"building {', '.join(program.names)}")
        build_one(shell, state, program)
        (keys / program.names[0]).write_text(key(program, source))
    return f"built {', '.join(program.names[0] for program in wanted)}"


def require_go(shell: Shell) -> None:
    if not shell.succeeds("go", "version"):
        raise SetupError("Go is not installed (or not in PATH): the cluster is built with Go 1.26 or newer")
    words = shell.read("go", "env", "GOVERSION", seconds=20).strip().removeprefix("go").split(".")
    if (int(words[0]), int(words[1])) < (1, 26):
        raise SetupError(f"Go {'.'.join(words)} is too old: the cluster is built with Go 1.26 or newer")


def build_one(shell: Shell, state: State, program: Program) -> None:
    made = state.scratch / f"go-{program.names[0]}"
    made.mkdir(parents=True, exist_ok=True)
    env = {"CGO_ENABLED": "1" if program.cgo else "0", "GOBIN": str(made), "GOFLAGS": "-buildvcs=false"}
    flags = ["-tags", program.tags, "-ldflags", program.ldflags]
    if program.module:
        output = made / program.names[0]
        place = SOURCE / program.module
        shell.run("go", "build", *flags, "-o", output, *program.packages, seconds=2400, cwd=place, env=env)
    else:
        shell.run("go", "install", *flags, *program.packages, seconds=1800, cwd=made, env=env)
    for name in program.names:
        (made / name).replace(state.bin / name)
    for link in program.links:
        fresh = made / link
        fresh.symlink_to(program.names[0])
        fresh.replace(state.bin / link)
