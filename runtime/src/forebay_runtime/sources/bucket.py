"""s3://: all objects below a prefix. AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and their like are obstore's own."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from forebay_runtime.sources.origin import OriginError

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ClientConfig

_TOGETHER = 8  # files at a time
_PIECE = 1 << 20  # bytes
_MARK = 12  # digits
_ANY_MARK = "[0-9a-f]" * _MARK  # and no more: tokenizer.model.v3 is not of tokenizer.model
# One file may take as long as its bytes come; a connection on which none comes for a minute is given up and made anew.
# http:// only where the endpoint says so itself.
_CLIENT: ClientConfig = {"timeout": timedelta(days=30), "read_timeout": timedelta(minutes=1), "allow_http": True}


class Bucket:
    """The objects below `prefix`, which is left out of their paths."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._store = S3Store(bucket, prefix=prefix.strip("/") or None, client_options=_CLIENT)
        self._objects: list[ObjectMeta] = []

    def sizes(self) -> Mapping[str, int]:
        try:
            self._objects = _files([about for page in obstore.list(self._store) for about in page])
        except (BaseError, OSError, ValueError) as e:
            raise OriginError(e) from e
        if not self._objects:
            raise OriginError("there is no object below it")
        return {about["path"]: about["size"] for about in self._objects}

    def bring(self, directory: Path) -> None:
        """OriginError of the first that fails; the others that were begun go on to their end. They take their places
        when all have come: until then each bears its object's mark, so that an attempt that goes on keeps none that
        another object of the same size has replaced."""
        with ThreadPoolExecutor(_TOGETHER) as threads:
            try:
                come = list(threads.map(lambda about: self._bring_one(about, directory), self._objects))
            except (BaseError, OSError, ValueError) as e:
                threads.shutdown(wait=False, cancel_futures=True)
                raise OriginError(e) from e
        for part, target in come:
            part.rename(target)

    def _bring_one(self, about: ObjectMeta, directory: Path) -> tuple[Path, Path]:
        """Into a file beside its place, named by what the object is now: no half of another one is gone on with. That
        file, and its place; the same, where it has taken it."""
        target = directory / about["path"]
        if not target.resolve().is_relative_to(directory.resolve()):
            raise ValueError(f"the object {about['path']!r} has no place below a directory")
        if target.is_file() and target.stat().st_size == about["size"]:
            return target, target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{_mark(about)}.part")
        for former in set(target.parent.glob(f".{glob.escape(target.name)}.{_ANY_MARK}.part")) - {part}:
            former.unlink()
        with part.open("ab") as file:
            if (there := file.tell()) < about["size"]:
                options: GetOptions = {"range": {"offset": there}, "if_match": about["e_tag"]}
                for piece in obstore.get(self._store, about["path"], options=options).stream(_PIECE):
                    file.write(piece)
        return part, target


def _files(objects: Sequence[ObjectMeta]) -> list[ObjectMeta]:
    """Without the empty objects that consoles make for folders: their names come without the slash at the end."""
    folders = {""} | {str(folder) for about in objects for folder in PurePosixPath(about["path"]).parents}
    return [about for about in objects if about["size"] or about["path"] not in folders]


def _mark(about: ObjectMeta) -> str:
    said = about["e_tag"] or about["last_modified"].isoformat()
    return hashlib.sha256(f"{said} {about['size']}".encode()).hexdigest()[:_MARK]
