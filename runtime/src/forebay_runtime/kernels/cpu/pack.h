// Weights from rows as files hold them into panels.
#pragma once
#include <vector>

#include "blocks.h"
#include "linear.h"

namespace forebay {

FB_INLINE uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

FB_INLINE uint16_t to_f16(float value) {  // to the nearest, ties to even; what is too large becomes the largest number
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits >= 0x477ff000) return sign | 0x7bff;
  if (bits < 0x38800000) {  // subnormal: the sum's last bits are the result
    float magnitude, half = 0.5f;
    std::memcpy(&magnitude, &bits, 4);
    magnitude += half;
    uint32_t sum;
    std::memcpy(&sum, &magnitude, 4);
    return sign | uint16_t(sum - 0x3f000000);
  }
  return sign | uint16_t((bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13);
}

// Quantizes to 127 steps either way, to the nearest; returns the scale.
static float pack_int8_row(const float* row, int k, int lane, uint8_t* panel) {
  F largest = zero();
  for (int i = 0; i < k; i += kLanes) largest = max(largest, abs(load_some(row + i, k - i)));
  const float most = reduce_max(largest), scale = most > 0 ? most / 127 : 1e-30f;
  const F inverse = set1(1 / scale);
  for (int i = 0; i < k; i += kLanes) {
    int8_t q[kLanes];
    store_int8(q, mul(load_some(row + i, k - i), inverse));
    for (int j = 0; j < kLanes && i + j < k; j += 4) {
      uint8_t four[4];
      for (int b = 0; b < 4; b++) four[b] = uint8_t(q[j + b] + 128);
      std::memcpy(panel + (int64_t(i + j) / 4 * kPanel + lane) * 4, four, 4);
    }
  }
  return scale;
}

// Into how many even steps the range falls so that every value lies on one: 4-bit files have such groups, and they come
// back as they are. The fewest; 15, the finest, where there is no such number.
static int even_steps(const float* values, int count, float least, float range) {
  for (int steps = 1; steps < 15; steps++) {
    const float inverse = steps / range;
    int i = 0;
    for (; i < count; i++) {
      const float at = (values[i] - least) * inverse;
      if (std::fabs(at - std::nearbyintf(at)) > 0.01f) break;
    }
    if (i == count) return steps;
  }
  return 15;
}

static void put_int4_group(const uint8_t* q, uint16_t scale, uint16_t minimum, int lane, uint8_t* group) {
  for (int i = 0; i < kGroup; i++) {
    uint8_t& both = group[(i / 8 * kPanel + lane) * 4 + i % 4];
    both = i % 8 < 4 ? q[i] : uint8_t(both | q[i] << 4);
  }
  uint16_t* halves = reinterpret_cast<uint16_t*>(group + kGroup * kPanel / 2);
  halves[lane] = scale, halves[kPanel + lane] = minimum;
}

// q * scale + minimum with q from 0 to 15.
static void pack_int4_group(const float* values, int count, int lane, uint8_t* group) {
  float least = values[0], most = values[0];
  for (int i = 1; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  const int steps = most > least ? even_steps(values, count, least, most - least) : 15;
  const uint16_t scale = to_f16((most - least) / float(steps)), minimum = to_f16(least);
  const float step = f16_value(scale), base = f16_value(minimum);
  uint8_t q[kGroup] = {};
  for (int i = 0; i < count; i++) {
    const float r = step > 0 ? std::nearbyintf((values[i] - base) / step) : 0;
    q[i] = uint8_t(r < 0 ? 0 : r > 15 ? 15 : r);
  }
  put_int4_group(q, scale, minimum, lane, group);
}

// A row (k) of a type, times `factor`, into its lane of a panel. Returns the scale for kInt8. What lies beyond k was
// filled before: kInt8 with 128, else 0. Groups that a file holds as kInt4 does are taken over as they are, but for
// what a float16 leaves of their scales.
static float pack_row(int kind, int type, const uint8_t* raw, int k, float factor, int lane, uint8_t* panel) {
  if (kind == kInt4 && has_groups4(type)) {
    for (int g = 0; g < k / kGroup; g++) {
      Group4 from;
      read_group4(type, raw, g, from);
      put_int4_group(from.q, to_f16(from.scale * factor), to_f16(from.minimum * factor), lane, panel + int64_t(g) * kInt4Bytes);
    }
    return 0;
  }
  std::vector<float> row(k);
  read_row(type, raw, k, row.data());
  if (factor != 1)
    for (float& value : row) value *= factor;
  switch (kind) {
    case kF32:
      for (int i = 0; i < k; i++) reinterpret_cast<float*>(panel)[int64_t(i) * kPanel + lane] = row[i];
      return 0;
    case kBF16:
      for (int i = 0; i < k; i++)
        reinterpret_cast<uint16_t*>(panel)[(int64_t(i / 2) * kPanel + lane) * 2 + i % 2] = to_bf16(row[i]);
      return 0;
    case kInt8: return pack_int8_row(row.data(), k, lane, panel);
    default:
      for (int i = 0; i < k; i += kGroup)
        pack_int4_group(row.data() + i, k - i < kGroup ? k - i : kGroup, lane, panel + int64_t(i / kGroup) * kInt4Bytes);
      return 0;
  }
}

}  // namespace forebay
