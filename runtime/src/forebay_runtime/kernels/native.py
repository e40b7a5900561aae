"""The door to the native kernels for CPUs (cpu/): packed weights, and a decoder's step in one call.

The library is built once per instruction set and linked to neither Python nor torch. Where there is none for this
machine `native_library` says so, and plain torch operations serve.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from forebay_runtime.kernels.sources import SOURCES, STAMP, is_current

Kind = Literal["float32", "bfloat16", "int8", "int4"]
KINDS: tuple[Kind, ...] = ("float32", "bfloat16", "int8", "int4")
ACTIVATIONS = ("silu", "gelu_tanh")
PANEL = 32  # output channels packed side by side
MAX_HEAD_DIM = 256
PRODUCTS = ("qkv", "out", "gate_up", "down")  # of a layer
PARTS = 3  # at most what is packed into one of them
TILE = 16  # slots of the KV cache that lie side by side

# The best first. Each needs these flags of /proc/cpuinfo.
_AVX2 = frozenset({"avx2", "fma", "f16c"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}) | _AVX2
_SETS = {
    "avx512_vnni": _AVX512 | {"avx512_vnni"},
    "avx512": _AVX512,
    "avx2": _AVX2,
    "portable": frozenset[str](),
}
FOLDER = SOURCES


class CLinear(ctypes.Structure):
    _fields_ = (
        ("kind", c_int32),
        ("n", c_int32),
        ("k", c_int32),
        ("unused", c_int32),
        ("data", c_void_p),
        ("scale", c_void_p),
        ("bias", c_void_p),
    )


class CLayer(ctypes.Structure):
    _fields_ = (
        *((name, CLinear) for name in ("qkv", "out", "gate_up", "down")),
        *(
            (f"{name}_norm", c_void_p)
            for name in ("attention", "post_attention", "feed_forward", "post_feed_forward", "query", "key")
        ),
        ("rotation", c_void_p),
        ("window", c_int32),
        ("unused", c_int32),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("key_scales", c_void_p),
        ("value_scales", c_void_p),
    )


class CModel(ctypes.Structure):
    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                *("num_layers", "hidden", "inter", "heads", "kv_heads", "head_dim", "vocab"),
                *("activation", "kv_kind", "max_tokens"),
            )
        ),
        *((name, c_float) for name in ("norm_eps", "embedding_scale", "attention_softcap", "final_softcap")),
        ("block_bytes", c_int64),
        ("embedding", CLinear),
        ("head", CLinear),
        ("norm", c_void_p),
        ("layers", POINTER(CLayer)),
    )


class CLowRank(ctypes.Structure):
    _fields_ = (("down", CLinear), ("up", CLinear), ("first", c_int32), ("unused", c_int32))


class CAdapted(ctypes.Structure):
    _fields_ = (*((name, c_int32) for name in ("first", "end", "rank", "unused")), ("parts", POINTER(CLowRank)))


class CStep(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("num_tokens", "num_sequences", "num_logits", "block_size")),
        *((name, c_void_p) for name in ("ids", "starts", "firsts", "blocks", "block_starts", "logits_rows")),
        ("logits", c_void_p),
        ("hidden", c_void_p),
        ("adapted", POINTER(CAdapted)),
        ("num_adapted", c_int32),
        ("unused", c_int32),
    )


class Rows(Protocol):
    """Rows of numbers as a file holds them. `type`: GGUF's number of the block type (cpu/blocks.h). `raw`: (rows, bytes
    of a row) uint8. `factor`: of every number.
    """

    @property
    def type(self) -> int: ...
    @property
    def raw(self) -> Tensor: ...
    @property
    def factor(self) -> float: ...


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Of float32."""

    raw: Tensor
    type: int = 0
    factor: float = 1.0


class NativeLibrary:
    """The kernels of one instruction set. Calls release the interpreter's lock; one step runs at a time."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._c = ctypes.CDLL(str(path))
        self._c.forebay_panel_bytes.restype = c_int64
        self._c.forebay_create.restype = c_void_p
        for function in ("forebay_destroy", "forebay_step"):
            getattr(self._c, function).argtypes = [c_void_p] + [c_void_p] * (function == "forebay_step")

    def set_threads(self, count: int) -> None:
        """Threads of the one pool, the caller's included. Not while a step runs."""
        self._c.forebay_set_threads(count)

    def pack(self, kind: Kind, weight: Tensor, bias: Tensor | None = None) -> NativeLinear:
        """Quantizes and packs rows of numbers (out, in)."""
        rows = PlainRows(weight.float().contiguous().view(torch.uint8))
        return self.pack_rows(kind, [rows], weight.shape[1], bias)

    def pack_rows(self, kind: Kind, parts: Sequence[Rows], k: int, bias: Tensor | None = None) -> NativeLinear:
        """The same of rows (of k numbers) as files hold them, those of all parts one after another, without a tensor of
        floats between. Several threads may pack at once.
        """
        n = sum(part.raw.shape[0] for part in parts)
        num_bytes, num_scales = self.packed_lengths(kind, n, k)
        data = torch.full((num_bytes,), 128 if kind == "int8" else 0, dtype=torch.uint8)
        scale, first = torch.zeros(num_scales), 0
        for part in parts:
            raw = part.raw.contiguous()
            kinds, count = (KINDS.index(kind), k, part.type), raw.shape[0]
            self._c.forebay_pack(*kinds, _at(raw), first, count, c_float(part.factor), _at(data), _at(scale))
            first += count
        return NativeLinear(self, kind, n, k, data, scale, None if bias is None else bias.float().contiguous())

    def read_rows(self, rows: Rows, k: int) -> Tensor:
        """(rows, k) float32, without the factor."""
        raw = rows.raw.contiguous()
        out = torch.empty(raw.shape[0], k)
        self._c.forebay_read_rows(rows.type, _at(raw), raw.shape[0], k, _at(out))
        return out

    def packed_lengths(self, kind: Kind, n: int, k: int) -> tuple[int, int]:
        """Bytes of packed weights (n, k), and float32 scales beside them."""
        panels = -(-n // PANEL)
        panel_bytes: int = self._c.forebay_panel_bytes(KINDS.index(kind), k)
        return panels * panel_bytes, panels * PANEL if kind == "int8" else 0

    def linear(self, weights: NativeLinear, x: Tensor) -> Tensor:
        x = x.float().contiguous()
        out = torch.empty(x.shape[0], weights.out_features)
        self._c.forebay_linear(ctypes.byref(weights.c), _at(x), c_int32(x.shape[0]), _at(out))
        return out

    def lookup(self, weights: NativeLinear, ids: Tensor) -> Tensor:
        ids = ids.to(torch.int32).contiguous()
        out = torch.empty(len(ids), weights.in_features)
        self._c.forebay_lookup(ctypes.byref(weights.c), _at(ids), c_int32(len(ids)), _at(out))
        return out

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """(T, n), (n) float32 -> (T, n)"""
        out = torch.empty_like(x)
        self._c.forebay_rms_norm(_at(x), _at(weight), c_int32(x.shape[0]), c_int32(x.shape[1]), c_float(eps), _at(out))
        return out

    def gated(self, gate_up: Tensor, activation: str) -> Tensor:
        """(T, 2 I) float32 -> (T, I)"""
        rows, width = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty(rows, width)
        kind = ACTIVATIONS.index(activation)
        self._c.forebay_gated(_at(gate_up), c_int32(rows), c_int32(width), c_int32(kind), _at(out))
        return out

    def create(self, model: CModel) -> int:
        """A decoder. It copies the structs; what they point to must outlive it."""
        handle: int = self._c.forebay_create(ctypes.byref(model))
        return handle

    def destroy(self, handle: int) -> None:
        self._c.forebay_destroy(handle)

    def step(self, handle: int, step: CStep) -> None:
        self._c.forebay_step(handle, ctypes.addressof(step))


class NativeLinear:
    """A product with packed weights: float32 in and out. Each row's result is the same whatever rows are beside it."""

    def __init__(
        self, library: NativeLibrary, kind: Kind, n: int, k: int, data: Tensor, scale: Tensor, bias: Tensor | None
    ) -> None:
        self._library, self.kind, self.parts = library, kind, (data, scale, bias)
        self.out_features, self.in_features = n, k
        self.c = CLinear(KINDS.index(kind), n, k, 0, data.data_ptr(), scale.data_ptr(), _pointer(bias))
        self.nbytes = data.nbytes + scale.nbytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, x: Tensor) -> Tensor:
        return self._library.linear(self, x)

    def rows(self, ids: Tensor) -> Tensor:
        """Rows of the weights themselves, as they are after quantization: (len(ids), in)."""
        return self._library.lookup(self, ids)


def _at(tensor: Tensor) -> c_void_p:
    return c_void_p(tensor.data_ptr())


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def int32_array(values: list[int]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Those that this processor runs, the best first."""
    flags: frozenset[str] = frozenset()
    if platform.machine() == "x86_64" and cpuinfo.is_file():
        line = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
        flags = frozenset(line.partition(":")[2].split())
    return [name for name, needed in _SETS.items() if needed <= flags]


@functools.cache
def native_library(name: str | None = None) -> NativeLibrary | None:
    """The kernels of the best set that was built and that runs here, or of the one named; None where there are none."""
    if not is_current(FOLDER):
        return None
    for candidate in instruction_sets():
        path = FOLDER / f"libforebay_cpu_{candidate}.so"
        if name in (None, candidate) and path.is_file():
            return NativeLibrary(candidate, path)
    return None


def why_none() -> str:
    """Why `native_library` finds nothing."""
    if (FOLDER / STAMP).is_file() and not is_current(FOLDER):
        return "those there are were made of other sources: install the runtime again (make venv)"
    return "none were built for this machine: no C++ compiler was found at installation"
