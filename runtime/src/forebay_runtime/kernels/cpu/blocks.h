// Rows of numbers as files hold them -> float. Types and layouts are those of GGUF (ggml-common.h of
// https://github.com/ggml-org/ggml); models/quantization/gguf.py reads the same in torch operations.
#pragma once
#include "abi.h"
#include "simd.h"

namespace forebay {

enum BlockType : int32_t { kBlocksF32 = 0, kBlocksF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ8_0 = 8, kQ4_K = 12, kQ6_K = 14, kBlocksBF16 = 30 };

FB_INLINE float f16_value(uint16_t half) {
  uint16_t halves[kLanes] = {half};
  float values[kLanes];
  store(values, load_f16(halves));
  return values[0];
}

FB_INLINE float f16_at(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return f16_value(half);
}

FB_INLINE int64_t row_bytes(int type, int k) {
  switch (type) {
    case kBlocksF32: return int64_t(k) * 4;
    case kQ4_0: return int64_t(k) / 32 * 18;
    case kQ4_1: return int64_t(k) / 32 * 20;
    case kQ5_0: return int64_t(k) / 32 * 22;
    case kQ8_0: return int64_t(k) / 32 * 34;
    case kQ4_K: return int64_t(k) / 256 * 144;
    case kQ6_K: return int64_t(k) / 256 * 210;
    default: return int64_t(k) * 2;
  }
}

// 32 numbers, each scale * q + minimum with q from 0 to 15.
struct Group4 {
  float scale, minimum;
  uint8_t q[32];
};

// The six bits each of scale and minimum of group g, packed into twelve bytes.
FB_INLINE void q4_k_scale(const uint8_t* packed, int g, int& scale, int& minimum) {
  if (g < 4) {
    scale = packed[g] & 63, minimum = packed[g + 4] & 63;
  } else {
    scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    minimum = (packed[g + 4] >> 4) | (packed[g] >> 6) << 4;
  }
}

FB_INLINE bool has_groups4(int type) { return type == kQ4_0 || type == kQ4_1 || type == kQ4_K; }

// Group g of a row of such a type.
static void read_group4(int type, const uint8_t* row, int g, Group4& out) {
  if (type == kQ4_K) {
    const uint8_t* block = row + int64_t(g / 8) * 144;
    int scale, minimum;
    q4_k_scale(block + 4, g % 8, scale, minimum);
    out.scale = float(scale) * f16_at(block), out.minimum = -(float(minimum) * f16_at(block + 2));
    const uint8_t* q = block + 16 + g % 8 / 2 * 32;
    for (int i = 0; i < 32; i++) out.q[i] = g % 2 ? q[i] >> 4 : q[i] & 15;
    return;
  }
  const uint8_t* block = row + int64_t(g) * (type == kQ4_0 ? 18 : 20);
  out.scale = f16_at(block);
  out.minimum = type == kQ4_0 ? -8 * out.scale : f16_at(block + 2);
  const uint8_t* q = block + (type == kQ4_0 ? 2 : 4);
  for (int i = 0; i < 16; i++) out.q[i] = q[i] & 15, out.q[i + 16] = q[i] >> 4;
}

static void read_q6_k(const uint8_t* block, float* out) {
  const float scale = f16_at(block + 208);
  for (int i = 0; i < 256; i++) {
    const int half = i / 128, part = i % 128 / 32, at = i % 32;
    const uint8_t low = block[half * 64 + part % 2 * 32 + at], high = block[128 + half * 32 + at];
    const int q = ((part < 2 ? low & 15 : low >> 4) | (high >> 2 * part & 3) << 4) - 32;
    out[i] = float(q) * (float(int8_t(block[192 + i / 16])) * scale);
  }
}

static void read_row(int type, const uint8_t* row, int k, float* out) {
  switch (type) {
    case kBlocksF32: std::memcpy(out, row, sizeof(float) * k); return;
    case kBlocksF16:
      for (int i = 0; i < k; i++) out[i] = f16_at(row + 2 * int64_t(i));
      return;
    case kBlocksBF16:
      for (int i = 0; i < k; i++) {
        uint16_t half;
        std::memcpy(&half, row + 2 * int64_t(i), 2);
        const uint32_t bits = uint32_t(half) << 16;
        std::memcpy(out + i, &bits, 4);
      }
      return;
    case kQ5_0:
      for (int i = 0; i < k; i++) {
        const uint8_t* block = row + int64_t(i / 32) * 22;
        const int at = i % 32, low = at < 16 ? block[6 + at] & 15 : block[6 + at - 16] >> 4;
        const int fifth = block[2 + at / 8] >> at % 8 & 1;
        out[i] = float((low | fifth << 4) - 16) * f16_at(block);
      }
      return;
    case kQ8_0:
      for (int g = 0; g < k / 32; g++) {
        const uint8_t* block = row + int64_t(g) * 34;
        const float scale = f16_at(block);
        for (int i = 0; i < 32; i++) out[g * 32 + i] = float(int8_t(block[2 + i])) * scale;
      }
      return;
    case kQ6_K:
      for (int b = 0; b < k / 256; b++) read_q6_k(row + int64_t(b) * 210, out + b * 256);
      return;
    default:
      for (int g = 0; g < k / 32; g++) {
        Group4 group;
        read_group4(type, row, g, group);
        // of Q4_0 the 8 goes off the quant in other readers; the result is the same: both are exact
        for (int i = 0; i < 32; i++) out[g * 32 + i] = float(group.q[i]) * group.scale + group.minimum;
      }
  }
}

}  // namespace forebay
