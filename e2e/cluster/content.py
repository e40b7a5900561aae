"""What each image is made of, as a key: the same content, the same key, nothing to do. No I/O but reading the checkout.

A key is the image's tag, so that a changed program changes the chart's values and is rolled out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASE_RECIPE = (
    "--variant=minbase",
    # As in Debian's own slim images.
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    # mmdebstrap copies these two from the machine.
    '--customize-hook=rm -f "$1/etc/hostname" && : > "$1/etc/resolv.conf"',
    "bookworm",
)
SPLIT = "\nFROM ${DEPENDENCIES}"
"""Parts the stages of what changes rarely from that of the code, in both Dockerfiles."""
KERNELS = ("build_kernels.py", "src/forebay_runtime/kernels/sources.py", "src/forebay_runtime/kernels/cpu/")
"""What of the runtime the native kernels are compiled from."""
IGNORED = frozenset({"sources.sha256", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


@dataclass(frozen=True, slots=True)
class Package:
    """One of the two packages; `name` is its folder, Dockerfile suffix, lock file and image."""

    name: str

    @property
    def repository(self) -> str:
        return f"forebay-{self.name}"


OPERATOR, RUNTIME = Package("operator"), Package("runtime")


@dataclass(frozen=True, slots=True)
class Keys:
    base: str
    dependencies: str
    kernels: str  # of the native kernels, compiled; of no use for a package without
    image: str


def digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        whole.update(len(encoded).to_bytes(8, "big") + encoded)
    return whole.hexdigest()[:12]


def keys(dockerfile: str, locks: Mapping[str, bytes], source: Mapping[str, bytes]) -> Keys:
    """`locks` and `source`: file contents by name. ValueError for a Dockerfile without the two stages."""
    dependencies, split, code = dockerfile.partition(SPLIT)
    if not split:
        raise ValueError(f"no line {SPLIT.strip()!r} in the Dockerfile")
    base = digest(*BASE_RECIPE)
    below = digest(base, dependencies, *flat(locks))
    compiled = {name: content for name, content in source.items() if name.startswith(KERNELS)}
    kernels = digest(base, dependencies, *flat(compiled))
    return Keys(base, below, kernels, digest(below, kernels, code, *flat(source)))


def flat(files: Mapping[str, bytes]) -> list[str | bytes]:
    return [part for name in sorted(files) for part in (name, files[name])]


def read_tree(folder: Path) -> dict[str, bytes]:
    """The files of a package that its image is built from; what tools leave beside them does not count."""

    def counts(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        return not any(part in IGNORED or part.endswith(".egg-info") for part in parts) and path.suffix not in (
            ".pyc",
            ".so",
        )

    files = (path for path in folder.rglob("*") if path.is_file() and counts(path))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def snapshot(checkout: Path, folder: Path) -> Path:
    """Copies what the images are built from, so that key and image agree while somebody edits the checkout."""
    for name in (OPERATOR.name, RUNTIME.name):
        copied = {f"{name}/{path}": content for path, content in read_tree(checkout / name).items()}
        copied |= {file: (checkout / file).read_bytes() for file in (f"Dockerfile.{name}", f"requirements/{name}.lock")}
        copied["requirements/build.lock"] = (checkout / "requirements/build.lock").read_bytes()
        for path, content in copied.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    return folder


def read_keys(source: Path, package: Package) -> Keys:
    locks = {name: (source / f"requirements/{name}.lock").read_bytes() for name in ("build", package.name)}
    dockerfile = (source / f"Dockerfile.{package.name}").read_text()
    return keys(dockerfile, locks, read_tree(source / package.name))
