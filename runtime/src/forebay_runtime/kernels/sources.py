"""Which sources the native kernels were compiled from. Standard library only: what compiles them reads it too."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = Path(__file__).parent / "cpu"
STAMP = "sources.sha256"


def digest() -> str:
    """Of every header and unit: libraries made of others take structs for what they are not."""
    whole = hashlib.sha256()
    for path in sorted(p for p in SOURCES.iterdir() if p.suffix in (".h", ".cpp")):
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def is_current(directory: Path) -> bool:
    """Whether the libraries there were made of these sources."""
    stamp = directory / STAMP
    return stamp.is_file() and stamp.read_text() == digest()
