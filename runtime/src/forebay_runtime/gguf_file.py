"""The head of a GGUF file: its metadata and where each tensor lies. Reads no tensor data. Standard library only.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The gguf package's own reader makes several
numpy objects per vocabulary entry and takes seconds where this takes a tenth of one.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 8


class GgufError(ValueError):
    """The file is no GGUF file, is cut off, or is of a version that nobody writes any more."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """`shape`: innermost first, as in the file; `offset`: from the file's beginning; `type`: ggml's number."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Metadata values are int, float, bool, str, or a list of one of these."""

    path: Path
    metadata: dict[str, object]
    tensors: tuple[GgufTensor, ...]


def find_gguf(path: Path) -> Path | None:
    """The GGUF file that a model path means: itself, or the one in the directory. GgufError if there are several."""
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    found = sorted(path.glob("*.gguf"))
    if len(found) > 1:
        raise GgufError(f"{path} holds {len(found)} GGUF files; name one of them: {', '.join(p.name for p in found)}")
    return found[0] if found else None


def read_gguf(path: Path) -> GgufFile:
    """GgufError with the path in it where the head can't be read."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise GgufError(f"{path} is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _read(path, data)
            except (struct.error, IndexError, UnicodeDecodeError, KeyError, OverflowError, MemoryError) as e:
                raise GgufError(f"{path} is cut off or broken inside its head") from e


def _read(path: Path, data: mmap.mmap) -> GgufFile:
    if data[:4] != b"GGUF":
        raise GgufError(f"{path} is no GGUF file")
    version, num_tensors, num_pairs = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        raise GgufError(f"{path} is GGUF version {version}; versions 2 and 3 are read")
    metadata: dict[str, object] = {}
    at = 24
    for _ in range(num_pairs):
        key, at = _string(data, at)
        kind, at = _number(data, at, "I")
        metadata[key], at = _value(data, at, kind)
    heads = []
    for _ in range(num_tensors):
        head, at = _tensor(data, at)
        heads.append(head)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise GgufError(f"{path} has alignment {alignment!r}")
    start = -(-at // alignment) * alignment
    tensors = tuple(GgufTensor(t.name, t.shape, t.type, start + t.offset) for t in heads)
    for tensor in tensors:
        if tensor.offset > len(data):
            raise GgufError(f"{path} is cut off: {tensor.name} begins beyond its end")
    return GgufFile(path, metadata, tensors)


def _tensor(data: mmap.mmap, at: int) -> tuple[GgufTensor, int]:
    name, at = _string(data, at)
    num_dimensions, at = _number(data, at, "I")
    if num_dimensions > _MAX_DIMENSIONS:
        raise IndexError(num_dimensions)
    shape = struct.unpack_from(f"<{num_dimensions}Q", data, at)
    at += 8 * num_dimensions
    kind, offset = struct.unpack_from("<IQ", data, at)
    return GgufTensor(name, shape, kind, offset), at + 12


def _number(data: mmap.mmap, at: int, code: str) -> tuple[int, int]:
    return struct.unpack_from("<" + code, data, at)[0], at + struct.calcsize("<" + code)


def _string(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + length
    if end > len(data):
        raise IndexError(end)
    return data[at + 8 : end].decode("utf-8", "surrogateescape"), end


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[object, int]:
    if kind == _STRING:
        return _string(data, at)
    if kind != _ARRAY:
        return _number(data, at, _SCALARS[kind])
    kind, length = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind in _SCALARS:
        code = f"<{length}{_SCALARS[kind]}"
        return list(struct.unpack_from(code, data, at)), at + struct.calcsize(code)
    if kind != _STRING:
        raise KeyError(kind)  # lists of lists are allowed by the format and written by nobody
    values = []
    for _ in range(length):
        value, at = _string(data, at)
        values.append(value)
    return values, at
