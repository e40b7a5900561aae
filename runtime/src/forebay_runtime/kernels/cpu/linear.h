// Products with packed weights. A row's result is a sum in one fixed order: it does not depend on how many rows share the
// call, nor on which thread computes it.
#pragma once
#include "abi.h"
#include "simd.h"

namespace forebay {

constexpr int kMaxRowsInt = kMaxRows > 3 ? kMaxRows / 2 : kMaxRows;  // two accumulators for each

FB_INLINE int panels(const Linear& w) { return (w.n + kPanel - 1) / kPanel; }
FB_INLINE int groups_of(int k) { return (k + kGroup - 1) / kGroup; }
constexpr int kInt4Bytes = kGroup * kPanel / 2 + 2 * kPanel * 2;  // of one group in one panel

FB_INLINE int64_t panel_bytes(int kind, int k) {
  switch (kind) {
    case kF32: return int64_t(k) * kPanel * 4;
    case kBF16: return int64_t((k + 1) / 2) * kPanel * 4;
    case kInt8: return int64_t(groups_of(k)) * kGroup * kPanel;
    default: return int64_t(groups_of(k)) * kInt4Bytes;
  }
}

// The input of a product: rows of float for float weights, else of int8, each group of kGroup with a scale of its own.
// One scale a row would not do: a few channels of some tokens are a hundred times larger than the others.
struct Input {
  float* values;     // (rows, stride)
  int8_t* quants;    // (rows, stride)
  float* scales;     // (rows, groups)
  int32_t* offsets;  // (rows, groups): for kInt8, what undoes the 128 that is added to weights
  float* sums;       // (rows, groups): for kInt4, of the group's numbers, by which its minimum is multiplied
  int64_t stride, groups;
};

struct Output {
  float* data;
  int64_t stride;
  bool adds;
};

static __attribute__((noinline)) void put_some(const Output& out, const Linear& w, int row, int column, F value) {
  const int left = w.n - column;
  if (left <= 0) return;
  if (w.bias) value = add(value, load_some(w.bias + column, left));
  float* p = out.data + row * out.stride + column;
  if (out.adds) value = add(load_some(p, left), value);
  store_some(p, value, left);
}

FB_INLINE void put(const Output& out, const Linear& w, int row, int column, F value) {
  if (w.bias || column + kLanes > w.n) return put_some(out, w, row, column, value);
  float* p = out.data + row * out.stride + column;
  store(p, out.adds ? add(load(p), value) : value);
}

FB_INLINE I quad(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return set1_int(four);
}

template <int R>
static void int8_rows(const Linear& w, const Input& in, const Output& out, int panel, int row) {
  const int groups = groups_of(w.k);
  const uint8_t* p = w.data + panel * panel_bytes(kInt8, w.k);
  const int8_t* x = in.quants + row * in.stride;
  const float* scales = in.scales + row * in.groups;
  const int32_t* offsets = in.offsets + row * in.groups;
  F total[R][2];
  unrolled<R>(FB_BODY(r) { total[r][0] = total[r][1] = zero(); });
  for (int g = 0; g < groups; g++) {
    I sum[R][2];
    unrolled<R>(FB_BODY(r) { sum[r][0] = sum[r][1] = set1_int(offsets[r * in.groups + g]); });
    for (int q = 0; q < kGroup / 4; q++, p += 128, x += 4) {
      const I first = load_bytes(p), second = load_bytes(p + 64);
      unrolled<R>(FB_BODY(r) {
        const I b = quad(x + r * in.stride);
        sum[r][0] = dot4(sum[r][0], first, b);
        sum[r][1] = dot4(sum[r][1], second, b);
      });
    }
    unrolled<R>(FB_BODY(r) {
      const F scale = set1(scales[r * in.groups + g]);
      total[r][0] = fma(to_float(sum[r][0]), scale, total[r][0]);
      total[r][1] = fma(to_float(sum[r][1]), scale, total[r][1]);
    });
  }
  unrolled<2>(FB_BODY(half) {
    const int column = panel * kPanel + half * kLanes;
    const F scale = load(w.scale + column);
    unrolled<R>(FB_BODY(r) { put(out, w, row + r, column, mul(total[r][half], scale)); });
  });
}

template <int R>
static void int4_rows(const Linear& w, const Input& in, const Output& out, int panel, int row) {
  const int groups = groups_of(w.k);
  const uint8_t* p = w.data + panel * panel_bytes(kInt4, w.k);
  const int8_t* x = in.quants + row * in.stride;
  const float *scales = in.scales + row * in.groups, *sums = in.sums + row * in.groups;
  F total[R][2];
  unrolled<R>(FB_BODY(r) { total[r][0] = total[r][1] = zero(); });
  for (int g = 0; g < groups; g++, p += kInt4Bytes, x += kGroup) {
    I sum[R][2];
    unrolled<R>(FB_BODY(r) { sum[r][0] = sum[r][1] = set1_int(0); });
    unrolled<4>(FB_BODY(pair) {
      const I first = load_bytes(p + pair * 128), second = load_bytes(p + pair * 128 + 64);
      const I first_low = low_nibbles(first), first_high = high_nibbles(first);
      const I second_low = low_nibbles(second), second_high = high_nibbles(second);
      unrolled<R>(FB_BODY(r) {
        const I low = quad(x + r * in.stride + pair * 8), high = quad(x + r * in.stride + pair * 8 + 4);
        sum[r][0] = dot4(dot4(sum[r][0], first_low, low), first_high, high);
        sum[r][1] = dot4(dot4(sum[r][1], second_low, low), second_high, high);
      });
    });
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(p + kGroup * kPanel / 2);
    unrolled<2>(FB_BODY(half) {
      const F step = load_f16(halves + half * kLanes), minimum = load_f16(halves + kPanel + half * kLanes);
      unrolled<R>(FB_BODY(r) {
        total[r][half] = fma(to_float(sum[r][half]), mul(step, set1(scales[r * in.groups + g])), total[r][half]);
        total[r][half] = fma(set1(sums[r * in.groups + g]), minimum, total[r][half]);
      });
    });
  }
  unrolled<2>(FB_BODY(half) {
    unrolled<R>(FB_BODY(r) { put(out, w, row + r, panel * kPanel + half * kLanes, total[r][half]); });
  });
}

template <int R>
static void f32_rows(const Linear& w, const Input& in, const Output& out, int panel, int row) {
  const float* p = reinterpret_cast<const float*>(w.data + panel * panel_bytes(kF32, w.k));
  const float* x = in.values + row * in.stride;
  F sum[R][2];
  unrolled<R>(FB_BODY(r) { sum[r][0] = sum[r][1] = zero(); });
  for (int i = 0; i < w.k; i++, p += kPanel, x++) {
    const F first = load(p), second = load(p + kLanes);
    unrolled<R>(FB_BODY(r) {
      const F b = set1(x[r * in.stride]);
      sum[r][0] = fma(first, b, sum[r][0]);
      sum[r][1] = fma(second, b, sum[r][1]);
    });
  }
  unrolled<2>(FB_BODY(half) {
    unrolled<R>(FB_BODY(r) { put(out, w, row + r, panel * kPanel + half * kLanes, sum[r][half]); });
  });
}

template <int R>
static void bf16_rows(const Linear& w, const Input& in, const Output& out, int panel, int row) {
  const uint8_t* p = w.data + panel * panel_bytes(kBF16, w.k);
  const float* x = in.values + row * in.stride;
  F sum[R][2];
  unrolled<R>(FB_BODY(r) { sum[r][0] = sum[r][1] = zero(); });
  for (int i = 0; i < w.k; i += 2, p += 128, x += 2) {
    const I first = load_bytes(p), second = load_bytes(p + 64);
    const F first_even = low_halves(first), first_odd = high_halves(first);
    const F second_even = low_halves(second), second_odd = high_halves(second);
    unrolled<R>(FB_BODY(r) {
      const F even = set1(x[r * in.stride]), odd = set1(x[r * in.stride + 1]);
      sum[r][0] = fma(first_odd, odd, fma(first_even, even, sum[r][0]));
      sum[r][1] = fma(second_odd, odd, fma(second_even, even, sum[r][1]));
    });
  }
  unrolled<2>(FB_BODY(half) {
    unrolled<R>(FB_BODY(r) { put(out, w, row + r, panel * kPanel + half * kLanes, sum[r][half]); });
  });
}

template <int R>
static void some_rows(const Linear& w, const Input& in, const Output& out, int panel, int row) {
  switch (w.kind) {
    case kF32: return f32_rows<R>(w, in, out, panel, row);
    case kBF16: return bf16_rows<R>(w, in, out, panel, row);
    case kInt8:
      if constexpr (R <= kMaxRowsInt) int8_rows<R>(w, in, out, panel, row);
      return;
    default:
      if constexpr (R <= kMaxRowsInt) int4_rows<R>(w, in, out, panel, row);
  }
}

// Rows [row, end) of one panel.
template <int R = kMaxRows>
static void product(const Linear& w, const Input& in, const Output& out, int panel, int row, int end) {
  if constexpr (R > 0) {
    if (R <= (w.kind == kInt8 || w.kind == kInt4 ? kMaxRowsInt : kMaxRows))
      for (; end - row >= R; row += R) some_rows<R>(w, in, out, panel, row);
    if (row < end) product<at_most(R - 1)>(w, in, out, panel, row, end);
  }
}

// A row of the weights themselves: what an embedding looks up.
static void unpacked_row(const Linear& w, int row, float factor, float* out) {
  const uint8_t* p = w.data + row / kPanel * panel_bytes(w.kind, w.k);
  const int lane = row % kPanel;
  for (int i = 0; i < w.k; i++) {
    switch (w.kind) {
      case kF32: out[i] = factor * reinterpret_cast<const float*>(p)[int64_t(i) * kPanel + lane]; break;
      case kBF16: {
        const uint16_t half = reinterpret_cast<const uint16_t*>(p)[(int64_t(i / 2) * kPanel + lane) * 2 + i % 2];
        const uint32_t bits = uint32_t(half) << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        out[i] = factor * value;
        break;
      }
      case kInt8: out[i] = factor * (w.scale[row] * float(int(p[(int64_t(i / 4) * kPanel + lane) * 4 + i % 4]) - 128)); break;
      default: {
        const uint8_t* group = p + int64_t(i / kGroup) * kInt4Bytes;
        const int at = i % kGroup;
        const uint8_t both = group[(at / 8 * kPanel + lane) * 4 + at % 4];
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(group + kGroup * kPanel / 2);
        uint16_t pair[kLanes] = {halves[lane], halves[kPanel + lane]};
        float scale_and_minimum[kLanes];
        store(scale_and_minimum, load_f16(pair));
        const int q = at % 8 < 4 ? both & 15 : both >> 4;
        out[i] = factor * (scale_and_minimum[0] * float(q) + scale_and_minimum[1]);
      }
    }
  }
}

}  // namespace forebay
