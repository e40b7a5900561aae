"""Each kernel against its slow and obvious oracle, with random shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay_runtime.kernels import reference
from forebay_runtime.kernels.activation import gated
from forebay_runtime.kernels.int8_linear import Int8Linear, OneDnnInt8Linear
from forebay_runtime.kernels.linear import DenseLinear, WidenedLinear
from forebay_runtime.kernels.norm import rms_norm
from forebay_runtime.kernels.rotary import interleave, rotate
from forebay_runtime.models.quantization.int8 import quantize_per_channel

sizes = st.integers(1, 40)
few = settings(max_examples=25, deadline=None)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@few
@given(tokens=sizes, size=sizes)
def test_rms_norm(tokens: int, size: int) -> None:
    x, weight = random(tokens, size), random(size)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), reference.rms_norm(x, weight, 1e-5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rms_norm_of_16_bit_numbers_is_computed_in_float32(dtype: torch.dtype) -> None:
    x, weight = random(5, 64, dtype=dtype), random(64, dtype=dtype)
    expected = reference.rms_norm(x.float(), weight.float(), 1e-5).to(dtype)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), expected)


@few
@given(tokens=sizes, heads=st.integers(1, 5), pairs=st.integers(1, 9))
def test_rotary(tokens: int, heads: int, pairs: int) -> None:
    x, angles = random(tokens, heads, 2 * pairs), random(tokens, pairs)
    rotation = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
    by_head = interleave(x.permute(1, 2, 0).reshape(-1, tokens), 2 * pairs)
    paired = by_head.view(heads, 2 * pairs, tokens).permute(2, 0, 1).contiguous()
    turned = reference.rotate_halves(x, angles)
    expected = interleave(turned.permute(1, 2, 0).reshape(-1, tokens), 2 * pairs)
    expected = expected.view(heads, 2 * pairs, tokens).permute(2, 0, 1)
    torch.testing.assert_close(rotate(paired, rotation), expected)


def test_rotary_of_16_bit_numbers() -> None:
    x = random(3, 2, 8, dtype=torch.bfloat16)
    rotation = torch.polar(torch.ones(3, 1, 4), random(3, 1, 4))
    expected = rotate(x.float(), rotation).bfloat16()
    torch.testing.assert_close(rotate(x.clone(), rotation), expected)


@few
@given(tokens=sizes, size=sizes)
def test_gates(tokens: int, size: int) -> None:
    x = random(tokens, 2 * size)
    torch.testing.assert_close(gated(x.clone(), "silu"), reference.gated(x, "silu"))
    torch.testing.assert_close(gated(x.clone(), "gelu_tanh"), reference.gated(x, "gelu_tanh"))


@few
@given(tokens=st.sampled_from([1, 3, 4, 5, 32, 63, 64, 70]), ins=sizes, outs=sizes, biased=st.booleans())
def test_products(tokens: int, ins: int, outs: int, biased: bool) -> None:
    x, weight, bias = random(tokens, ins), random(outs, ins), random(outs) if biased else None
    expected = reference.linear(x, weight, bias)
    torch.testing.assert_close(DenseLinear(weight, bias)(x), expected, atol=1e-5, rtol=1e-5)


@few
@given(tokens=st.sampled_from([1, 4, 5, 40, 64]), biased=st.booleans(), dtype=st.sampled_from(["bfloat16", "float16"]))
def test_widened_products_are_the_narrow_ones(tokens: int, biased: bool, dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, weight, bias = random(tokens, 24), random(30, 24, dtype=kind), random(30, dtype=kind) if biased else None
    expected = reference.linear(x.to(kind).double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(WidenedLinear(weight, bias)(x), expected.float(), atol=0.05, rtol=0.01)


def test_widening_goes_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = random(9, 24), random(31, 24, dtype=torch.bfloat16), random(31, dtype=torch.bfloat16)
    whole = WidenedLinear(weight, bias)(x)
    monkeypatch.setattr(WidenedLinear, "_SLICE", 100)
    torch.testing.assert_close(WidenedLinear(weight, bias)(x), whole)


@few
@given(tokens=st.sampled_from([1, 2, 17, 40]), ins=st.integers(1, 80), outs=sizes, biased=st.booleans())
def test_int8_products_are_the_quantized_ones(tokens: int, ins: int, outs: int, biased: bool) -> None:
    x, (weight, scale), bias = random(tokens, ins), quantize_per_channel(random(outs, ins)), random(outs)
    bias_or_none = bias if biased else None
    expected = Int8Linear(weight, scale, bias_or_none)(x)
    # halves are rounded up by one and to even by the other: rare, and worth one step of one input
    torch.testing.assert_close(OneDnnInt8Linear(weight, scale, bias_or_none)(x), expected, atol=0.05, rtol=0.01)


def test_int8_products_are_near_the_exact_ones() -> None:
    x, weight = random(20, 256), random(64, 256)
    exact = x @ weight.t()
    error = (OneDnnInt8Linear(*quantize_per_channel(weight))(x) - exact).norm() / exact.norm()
    assert error < 0.02


def test_a_row_of_zeros_stays_zero_in_int8() -> None:
    assert OneDnnInt8Linear(*quantize_per_channel(random(8, 16)))(torch.zeros(2, 16)).abs().max() == 0
    assert quantize_per_channel(torch.zeros(2, 4))[0].abs().max() == 0


def test_int8_rows_do_not_depend_on_their_neighbours() -> None:
    x, linear = random(33, 128), OneDnnInt8Linear(*quantize_per_channel(random(96, 128)))
    alone = torch.cat([linear(row.unsqueeze(0)) for row in x])
    assert torch.equal(linear(x), alone)


@few
@given(outs=sizes, ins=sizes)
def test_quantized_weights_are_within_half_a_step(outs: int, ins: int) -> None:
    weight = random(outs, ins)
    quantized, scale = quantize_per_channel(weight)
    assert quantized.dtype == torch.int8
    assert ((quantized * scale.unsqueeze(1) - weight).abs() <= scale.unsqueeze(1) * 0.5001).all()
