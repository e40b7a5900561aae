"""Brings a model from where it is kept into a directory: what init containers and download Jobs run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from forebay_runtime.failures import StartUpError
from forebay_runtime.progress import Progress
from forebay_runtime.repeating import repeating
from forebay_runtime.sources.origin import Origin, OriginError
from forebay_runtime.sources.room import Room, bytes_in, lacking

WHOLE = ".forebay-whole"  # written last; it holds the source of the files beside it
_TICK = 0.5  # seconds between two looks at what has come: the same for every kind of source
_HUB = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?/?")
_BUCKET = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]+)(?:/(?P<prefix>.*))?")


def fetch(source: str, directory: Path, progress: Progress, most: int | None = None) -> None:
    """What is there already, whole, is not asked for again; what is there in part is gone on with.

    `most`: bytes that the directory is to hold at most. StartUpError: the source is none, or has not given what was
    asked for, or there is no room for it; then nothing of it is written.
    """
    mark = directory / WHOLE
    if mark.is_file() and mark.read_text() == source:
        return
    origin = _origin(source)
    try:
        sizes = origin.sizes()
        directory.mkdir(parents=True, exist_ok=True)
        disk = os.statvfs(directory)
        room = Room(bytes_in(directory), disk.f_bavail * disk.f_frsize, most)
        if words := lacking(sizes, room):
            raise OriginError(words)
        progress.expect(sum(sizes.values()), room.there)
        with repeating(lambda: progress.reach(bytes_in(directory)), _TICK, "arrival"):
            origin.bring(directory)
        _finish(source, sizes, directory)
    except (OriginError, OSError) as e:
        raise StartUpError(f"{source} can't be fetched: {e}") from e
    progress.reach(progress.total)


def _origin(source: str) -> Origin:
    """The libraries of a kind of source are imported for it alone."""
    if match := _HUB.fullmatch(source):
        from forebay_runtime.sources.hub import Hub

        return Hub(match["repository"], match["revision"])
    if match := _BUCKET.fullmatch(source):
        from forebay_runtime.sources.bucket import Bucket

        return Bucket(match["bucket"], match["prefix"] or "")
    raise StartUpError(f"{source!r} is no source of the form hf://org/name[@revision] or s3://bucket[/prefix]")


def _finish(source: str, sizes: Mapping[str, int], directory: Path) -> None:
    """The mark appears at once and after all else, so that no half is ever taken for the whole."""
    for name, size in sizes.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != size:
            raise OriginError(f"{name} has not come whole")
        with path.open("rb") as file:
            os.fsync(file.fileno())
    part = directory / f"{WHOLE}.part"
    part.write_text(source)
    part.rename(directory / WHOLE)
