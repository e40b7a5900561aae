// What is done to each token by itself: norms, the quantization of a product's input, gates, rotary positions.
#pragma once
#include "linear.h"

namespace forebay {

// out = x / rms(x) * weight; may be x itself (Zhang and Sennrich, 2019).
static void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  F squares = zero();
  for (int i = 0; i < n; i += kLanes) {
    const F v = load_some(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const F scale = set1(1 / std::sqrt(reduce_add(squares) / float(n) + eps));
  for (int i = 0; i < n; i += kLanes)
    store_some(out + i, mul(mul(load_some(x + i, n - i), scale), load_some(weight + i, n - i)), n - i);
}

FB_INLINE F sigmoid(F x) { return div(set1(1), add(set1(1), exp(min(sub(zero(), x), set1(88))))); }
FB_INLINE F tanh(F x) { return sub(mul(set1(2), sigmoid(mul(set1(2), x))), set1(1)); }
FB_INLINE F capped(F x, float cap) { return mul(set1(cap), tanh(mul(x, set1(1 / cap)))); }

// out (n) = activation(gate_up[:n]) * gate_up[n:] (Shazeer, 2020); may be gate_up itself.
static void gated(const float* gate_up, int n, int activation, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F gate = load_some(gate_up + i, n - i), up = load_some(gate_up + n + i, n - i);
    F inner = gate;
    if (activation == kGeluTanh) {
      const F cube = mul(gate, mul(gate, gate));
      inner = mul(set1(1.5957691216f), fma(set1(0.044715f), cube, gate));  // 2 sqrt(2 / pi): tanh by the sigmoid
    }
    store_some(out + i, mul(mul(gate, sigmoid(inner)), up), n - i);
  }
}

FB_INLINE int32_t sum_of_group(const int8_t* q) {
  alignas(64) int8_t bytes[64] = {};
  std::memcpy(bytes, q, kGroup);
  return reduce_add(dot4(set1_int(0), set1_int(0x01010101), load_bytes(bytes)));
}

// Row `row` of a product's input from x (k). The stride is beyond k by at least what the product reads past it.
static void prepare(const Linear& w, const float* x, const Input& in, int row) {
  const int k = w.k;
  if (w.kind == kF32 || w.kind == kBF16) {
    float* out = in.values + row * in.stride;
    if (out != x) std::memcpy(out, x, sizeof(float) * k);
    out[k] = 0;
    return;
  }
  int8_t* q = in.quants + row * in.stride;
  for (int g = 0, at = 0; at < k; g++, at += kGroup) {
    const F first = load_some(x + at, k - at), second = k - at > kLanes ? load_some(x + at + kLanes, k - at - kLanes) : zero();
    const float most = reduce_max(max(abs(first), abs(second)));
    const F inverse = set1(most > 0 ? 127 / most : 0);
    store_int8(q + at, mul(first, inverse));
    store_int8(q + at + kLanes, mul(second, inverse));
    const int32_t sum = sum_of_group(q + at);
    const float scale = most / 127;
    in.scales[row * in.groups + g] = scale;
    if (w.kind == kInt8)
      in.offsets[row * in.groups + g] = -128 * sum;
    else
      in.sums[row * in.groups + g] = scale * float(sum);
  }
}

// Turns neighbouring pairs by the angles at `rotation` (n / 2 of cosine, sine); in place.
static void rotate(float* x, const float* rotation, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const F v = load_some(x + i, n - i), turn = load_some(rotation + i, n - i);
    static const float signs[kLanes] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
    store_some(x + i, fma(v, even_twice(turn), mul(swap_pairs(v), mul(odd_twice(turn), load(signs)))), n - i);
  }
}

}  // namespace forebay
