"""The native kernels against their oracles, for each instruction set that this processor runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay_runtime.kernels import reference
from forebay_runtime.kernels.native import KINDS, Kind, NativeLibrary, instruction_sets, native_library
from forebay_runtime.models.quantization.gguf import BLOCK_TYPES
from forebay_runtime.models.quantization.stored_rows import StoredRows
from tests.runtime.models.test_gguf_blocks import random_blocks

SETS = instruction_sets()
sizes = st.integers(1, 70)
few = settings(max_examples=20, deadline=None)


@pytest.fixture(scope="module", params=SETS)
def library(request: pytest.FixtureRequest) -> NativeLibrary:
    found = native_library(request.param)
    assert found is not None, f"the kernels were not built for {request.param}"
    found.set_threads(1)
    return found


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def misaligned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, four bytes off where memory begins."""
    return torch.cat((torch.zeros(1), x.flatten()))[1:].view(x.shape)


def quantized_inputs(x: torch.Tensor, group: int = 32) -> torch.Tensor:
    """What an integer product sees of its input: groups of 32 rounded to 127 steps either way."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % group)).view(len(x), -1, group)
    scale = padded.abs().amax(-1, keepdim=True) / 127
    rounded = torch.where(scale > 0, (padded * (127 / (scale * 127))).round() * scale, torch.zeros(()))
    return rounded.view(len(x), -1)[:, : x.shape[1]]


@few
@given(rows=st.integers(1, 30), ins=sizes, outs=sizes, kind=st.sampled_from(KINDS), biased=st.booleans())
def test_products(library: NativeLibrary, rows: int, ins: int, outs: int, kind: Kind, biased: bool) -> None:
    x, weight, bias = misaligned(random(rows, ins)), random(outs, ins, seed=1), random(outs) if biased else None
    packed = library.pack(kind, weight, bias)
    seen = quantized_inputs(x) if kind in ("int8", "int4") else x
    expected = reference.linear(seen, packed.rows(torch.arange(outs)), bias)
    # an input halfway between two steps may be rounded either way
    tolerance = 1e-5 if kind in ("float32", "bfloat16") else 0.05
    torch.testing.assert_close(packed(x), expected, atol=tolerance * ins**0.5, rtol=1e-4)


@few
@given(ins=sizes, outs=sizes, kind=st.sampled_from(KINDS))
def test_packed_weights_are_near_the_given_ones(library: NativeLibrary, ins: int, outs: int, kind: Kind) -> None:
    weight = random(outs, ins)
    steps = {"float32": 0.0, "bfloat16": 2**-8, "int8": 1 / 254, "int4": 1 / 15}[kind]
    error = (library.pack(kind, weight).rows(torch.arange(outs)) - weight).abs()
    largest = weight.abs().amax(1, keepdim=True)
    assert (error <= steps * largest * 1.01 + 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_neighbours(library: NativeLibrary, kind: Kind) -> None:
    x, packed = random(41, 96), library.pack(kind, random(80, 96))
    alone = torch.cat([packed(row.unsqueeze(0)) for row in x])
    assert torch.equal(packed(x), alone)
    assert torch.equal(packed(x[5:12]), alone[5:12])


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_inputs(library: NativeLibrary, kind: Kind) -> None:
    weight = torch.full((33, 64), 3.0)
    weight[::2] *= -1
    x = torch.stack((torch.zeros(64), torch.full((64,), 1e4), torch.full((64,), -1e4), torch.full((64,), 1e-20)))
    out = library.pack(kind, weight)(x)
    torch.testing.assert_close(out, x @ weight.t(), rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("most", [15, 13, 8, 3])
def test_four_bit_weights_come_back_as_they_are(library: NativeLibrary, most: int) -> None:
    """A group that lies on even steps, as 4-bit files have them, loses nothing, even where it does not use them all."""
    steps = torch.randint(0, most + 1, (40, 3, 32), generator=torch.Generator().manual_seed(0)).float()
    steps[..., 0], steps[..., 1], steps[..., 2] = 0, most, most - 1
    weight = (steps * 2**-6 - 0.125).view(40, 96)
    assert torch.equal(library.pack("int4", weight).rows(torch.arange(40)), weight)


def blocks(number: int, rows: int, columns: int) -> StoredRows:
    kind = BLOCK_TYPES[number]
    count = rows * columns // kind.values_per_block
    return StoredRows(number, torch.from_numpy(random_blocks(kind, count).copy()).view(rows, -1))


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_rows_of_files_are_read_as_torch_operations_read_them(library: NativeLibrary, number: int) -> None:
    rows = blocks(number, 5, 512)
    assert torch.equal(library.read_rows(rows, 512), rows.floats())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_rows_of_files_are_packed_as_their_numbers_are(library: NativeLibrary, number: int, kind: Kind) -> None:
    """Parts of several types beside each other, times a factor, and not a multiple of a panel."""
    parts = [replace(blocks(number, 40, 512), factor=0.3), blocks(0, 7, 512)]
    packed = library.pack_rows(kind, parts, 512).rows(torch.arange(47))
    floats = torch.cat([part.floats() for part in parts])
    if kind == "int4" and number in (2, 3, 12):  # taken over group by group: scales and minima have 11 bits
        largest = floats.abs().view(47, -1, 32).amax(-1, keepdim=True) * 2**-10
        extremes = torch.maximum(largest, packed.abs().view(47, -1, 32).amax(-1, keepdim=True) * 2**-10)
        near = ((packed - floats).view(47, -1, 32).abs() <= 16 * extremes).all(-1)
        assert near[:40].all()
    else:
        assert torch.equal(packed, library.pack(kind, floats).rows(torch.arange(47)))


@pytest.mark.parametrize("number", [2, 3])
def test_four_bit_groups_of_files_lose_nothing(library: NativeLibrary, number: int) -> None:
    rows = blocks(number, 40, 96)
    assert torch.equal(library.pack_rows("int4", [rows], 96).rows(torch.arange(40)), rows.floats())


@few
@given(rows=st.integers(1, 5), size=sizes)
def test_rms_norm(library: NativeLibrary, rows: int, size: int) -> None:
    x, weight = misaligned(random(rows, size)), random(size)
    torch.testing.assert_close(library.rms_norm(x, weight, 1e-5), reference.rms_norm(x, weight, 1e-5))


@few
@given(rows=st.integers(1, 5), size=sizes, scale=st.sampled_from([1.0, 30.0]))
def test_gates(library: NativeLibrary, rows: int, size: int, scale: float) -> None:
    x = random(rows, 2 * size) * scale
    for activation in ("silu", "gelu_tanh"):
        expected = reference.gated(x.double(), activation).float()
        torch.testing.assert_close(library.gated(x, activation), expected, atol=1e-5, rtol=1e-5)


def test_the_best_set_is_the_first_that_was_built() -> None:
    best = native_library()
    assert best is not None
    assert best.name == SETS[0]


def test_a_processor_without_flags_gets_the_portable_kernels(tmp_path: Path) -> None:
    nothing = tmp_path / "cpuinfo"
    nothing.write_text("processor : 0\nflags : fpu sse2\n")
    assert instruction_sets(nothing) == ["portable"]
