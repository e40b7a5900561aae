"""An image of llama.cpp's server: the program that bench/ builds for this machine, and the libraries that it links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from bench import llama_cpp_tools
from e2e.cluster import lock
from e2e.cluster.components import PUSH_REGISTRY
from e2e.cluster.images import LOCAL, Builder
from e2e.cluster.registry import tag_folder
from e2e.cluster.shell import Shell
from e2e.cluster.state import State, Target, state_of, target_of

REPOSITORY = "llama-server"
HOME = Path("opt/llama")


def reference() -> str:
    """How a pod names it. It is built, minutes the first time on a machine, and pushed where it is not there yet."""
    state = state_of(os.environ)
    target = target_of(os.environ, state)
    server = Path(llama_cpp_tools.path("llama-server"))
    tag = llama_cpp_tools.version()
    if not (target.own and tag_folder(state, REPOSITORY, tag).exists()):
        with lock.held("the image of llama-server", print):
            _push(state, target, server, tag)
    return f"{target.registry}/{REPOSITORY}:{tag}"


def _push(state: State, target: Target, server: Path, tag: str) -> None:
    builder = Builder(Shell(state.log / "llama-image.log", state.root, str(state.bin)), state)
    context, name = state.scratch / "llama", f"{LOCAL}/{REPOSITORY}:{tag}"
    shutil.rmtree(context, ignore_errors=True)
    lay_out(server, context)
    dockerfile = state.scratch / "Dockerfile.llama"
    dockerfile.write_text(f"FROM scratch\nCOPY . /\nENV PATH=/{HOME} LD_LIBRARY_PATH=/{HOME}\n")
    builder.build(dockerfile, context, name, seconds=300)
    shutil.rmtree(context)
    plain = ("--tls-verify=false",) if target.own or target.registry.startswith("localhost") else ()
    where = PUSH_REGISTRY if target.own else target.registry
    builder.run("push", *plain, name, f"docker://{where}/{REPOSITORY}:{tag}", seconds=300)


def lay_out(server: Path, root: Path) -> None:
    """The server with its own libraries in one folder, as it wants them, and the system's where they are here."""
    told = subprocess.run(["ldd", server], check=True, capture_output=True, text=True).stdout
    for file in (server, *linked(told)):
        there = root / HOME if file.parent == server.parent else root / file.parent.relative_to("/")
        there.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, there)


def linked(told: str) -> tuple[Path, ...]:
    """The files that `ldd` names."""
    return tuple(Path(path) for path in re.findall(r"(/\S+) \(0x", told))
