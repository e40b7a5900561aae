"""Whether what is to come has room: asked before its first byte is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NO_ROOM = "no room: "  # how its words begin


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes: what a directory holds already, what its file system has free, and the most that it is to hold."""

    there: int
    free: int
    most: int | None = None


def lacking(sizes: Mapping[str, int], room: Room) -> str | None:
    """The arithmetic, where files of these sizes have no room; None where they do."""
    total, count = sum(sizes.values()), len(sizes)
    what = f"its {count} files have {total:,} bytes"
    if room.most is not None and total > room.most:
        return f"{NO_ROOM}{what}, and the volume is to hold {room.most:,}: {total - room.most:,} too many"
    missing = total - room.there
    if missing > room.free:
        there = f", of which {room.there:,} are there" if room.there else ""
        return f"{NO_ROOM}{what}{there}, and the volume has {room.free:,} free: {missing - room.free:,} too few"
    return None


def bytes_in(directory: Path) -> int:
    """Of its files, so far as they are on the disk: one that was only given its size holds nothing yet."""
    found = 0
    for path in directory.rglob("*"):
        try:
            about = path.lstat()
        except FileNotFoundError:  # it was a part, and is whole now
            continue
        if path.is_file():
            found += min(about.st_size, about.st_blocks * 512)
    return found
