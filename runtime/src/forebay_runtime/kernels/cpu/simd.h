// Sixteen lanes of float or int32, the same functions for each instruction set.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define FB_INLINE static inline __attribute__((always_inline))

namespace forebay {

constexpr int kLanes = 16;

#if defined(__AVX512F__)
using F = __m512;
using I = int32_t __attribute__((vector_size(64)));  // not __m512i: conversions between the two cost copies
constexpr int kMaxRows = 12;  // rows of a product that share one read of the weights
FB_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
FB_INLINE void store(float* p, F a) { _mm512_storeu_ps(p, a); }
FB_INLINE F set1(float a) { return _mm512_set1_ps(a); }
FB_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
FB_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
FB_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
FB_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
FB_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
FB_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
FB_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
FB_INLINE F abs(F a) { return _mm512_abs_ps(a); }
FB_INLINE F round(F a) { return _mm512_roundscale_ps(a, 8); }
FB_INLINE F zero_below(F a, F x, F least) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, least, _CMP_GE_OQ), a); }
FB_INLINE F times_power_of_two(F a, F n) { return _mm512_scalef_ps(a, n); }
FB_INLINE F swap_pairs(F a) { return _mm512_permute_ps(a, 0xB1); }
FB_INLINE F even_twice(F a) { return _mm512_moveldup_ps(a); }
FB_INLINE F odd_twice(F a) { return _mm512_movehdup_ps(a); }
FB_INLINE __m512i bits(I a) { return reinterpret_cast<__m512i>(a); }
FB_INLINE I ints(__m512i a) { return reinterpret_cast<I>(a); }
FB_INLINE I load_bytes(const void* p) { return ints(_mm512_loadu_si512(p)); }
FB_INLINE I set1_int(int32_t a) { return ints(_mm512_set1_epi32(a)); }
FB_INLINE I sub_int(I a, I b) { return a - b; }
FB_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(bits(a)); }
FB_INLINE F low_halves(I a) { return _mm512_castsi512_ps(_mm512_slli_epi32(bits(a), 16)); }
FB_INLINE F high_halves(I a) { return _mm512_castsi512_ps(_mm512_and_si512(bits(a), _mm512_set1_epi32(int32_t(0xffff0000)))); }
FB_INLINE I low_nibbles(I a) { return ints(_mm512_and_si512(bits(a), _mm512_set1_epi8(15))); }
FB_INLINE I high_nibbles(I a) { return ints(_mm512_and_si512(_mm512_srli_epi16(bits(a), 4), _mm512_set1_epi8(15))); }
FB_INLINE F load_bf16(const uint16_t* p) {
  return low_halves(ints(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))));
}
FB_INLINE void store_bf16(uint16_t* p, F a) {  // to the nearest, ties to even
  const __m512i raw = _mm512_castps_si512(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(raw, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(raw, odd), _mm512_set1_epi32(0x7fff));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
FB_INLINE F load_int8(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
FB_INLINE F load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
FB_INLINE void store_int8(int8_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
}
#if defined(__AVX512VNNI__)
FB_INLINE I dot4(I sum, I u8, I s8) { return ints(_mm512_dpbusd_epi32(bits(sum), bits(u8), bits(s8))); }
#else
FB_INLINE I dot4(I sum, I u8, I s8) {  // in 16 bits, where nothing saturates
  const __m512i u = bits(u8), s = bits(s8), low = _mm512_set1_epi16(255);
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(u, low), _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
  return sum + ints(_mm512_add_epi32(even, odd));
}
#endif

#elif defined(__AVX2__)
struct F { __m256 a, b; };
using Ints = int32_t __attribute__((vector_size(32)));  // not __m256i: conversions between the two cost copies
struct I { Ints a, b; };
FB_INLINE __m256i bits(Ints a) { return reinterpret_cast<__m256i>(a); }
FB_INLINE Ints ints(__m256i a) { return reinterpret_cast<Ints>(a); }
constexpr int kMaxRows = 3;
FB_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FB_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
FB_INLINE F set1(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
FB_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
FB_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
FB_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
FB_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
FB_INLINE F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
FB_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
FB_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
FB_INLINE F abs(F x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
FB_INLINE F round(F x) { return {_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)}; }
FB_INLINE F zero_below(F x, F y, F least) {
  return {_mm256_and_ps(x.a, _mm256_cmp_ps(y.a, least.a, _CMP_GE_OQ)), _mm256_and_ps(x.b, _mm256_cmp_ps(y.b, least.b, _CMP_GE_OQ))};
}
FB_INLINE __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
FB_INLINE F times_power_of_two(F x, F n) { return {_mm256_mul_ps(x.a, power_of_two(n.a)), _mm256_mul_ps(x.b, power_of_two(n.b))}; }
FB_INLINE F swap_pairs(F x) { return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)}; }
FB_INLINE F even_twice(F x) { return {_mm256_moveldup_ps(x.a), _mm256_moveldup_ps(x.b)}; }
FB_INLINE F odd_twice(F x) { return {_mm256_movehdup_ps(x.a), _mm256_movehdup_ps(x.b)}; }
FB_INLINE I load_bytes(const void* p) {
  const __m256i* q = static_cast<const __m256i*>(p);
  return {ints(_mm256_loadu_si256(q)), ints(_mm256_loadu_si256(q + 1))};
}
FB_INLINE I set1_int(int32_t a) { return {ints(_mm256_set1_epi32(a)), ints(_mm256_set1_epi32(a))}; }
FB_INLINE I sub_int(I x, I y) { return {x.a - y.a, x.b - y.b}; }
FB_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(bits(x.a)), _mm256_cvtepi32_ps(bits(x.b))}; }
FB_INLINE F low_halves(I x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(bits(x.a), 16)), _mm256_castsi256_ps(_mm256_slli_epi32(bits(x.b), 16))};
}
FB_INLINE F high_halves(I x) {
  const __m256i mask = _mm256_set1_epi32(int32_t(0xffff0000));
  return {_mm256_castsi256_ps(_mm256_and_si256(bits(x.a), mask)), _mm256_castsi256_ps(_mm256_and_si256(bits(x.b), mask))};
}
FB_INLINE I low_nibbles(I x) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {ints(_mm256_and_si256(bits(x.a), mask)), ints(_mm256_and_si256(bits(x.b), mask))};
}
FB_INLINE I high_nibbles(I x) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {ints(_mm256_and_si256(_mm256_srli_epi16(bits(x.a), 4), mask)),
          ints(_mm256_and_si256(_mm256_srli_epi16(bits(x.b), 4), mask))};
}
FB_INLINE F load_bf16(const uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return low_halves({ints(_mm256_cvtepu16_epi32(_mm_loadu_si128(q))), ints(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)))});
}
FB_INLINE __m256i rounded_halves(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
}
FB_INLINE void store_bf16(uint16_t* p, F x) {
  const __m256i packed = _mm256_packus_epi32(rounded_halves(x.a), rounded_halves(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}
FB_INLINE F load_int8(const int8_t* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(raw)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(raw, 8)))};
}
FB_INLINE F load_f16(const uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
FB_INLINE void store_int8(int8_t* p, F x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
FB_INLINE Ints dot4(Ints sum, Ints u8, Ints s8) {  // in 16 bits, where nothing saturates
  const __m256i u = bits(u8), s = bits(s8), low = _mm256_set1_epi16(255);
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, low), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return sum + ints(_mm256_add_epi32(even, odd));
}
FB_INLINE I dot4(I sum, I u8, I s8) { return {dot4(sum.a, u8.a, s8.a), dot4(sum.b, u8.b, s8.b)}; }

#else  // plain C++, for every other processor
struct F { float v[16]; };
struct I { int32_t v[16]; };
constexpr int kMaxRows = 2;
#define FB_EACH(T, expression) \
  T r;                         \
  for (int i = 0; i < 16; i++) r.v[i] = expression; \
  return r
FB_INLINE F load(const float* p) { FB_EACH(F, p[i]); }
FB_INLINE void store(float* p, F a) { std::memcpy(p, a.v, sizeof a.v); }
FB_INLINE F set1(float a) { FB_EACH(F, a); }
FB_INLINE F add(F a, F b) { FB_EACH(F, a.v[i] + b.v[i]); }
FB_INLINE F sub(F a, F b) { FB_EACH(F, a.v[i] - b.v[i]); }
FB_INLINE F mul(F a, F b) { FB_EACH(F, a.v[i] * b.v[i]); }
FB_INLINE F div(F a, F b) { FB_EACH(F, a.v[i] / b.v[i]); }
FB_INLINE F fma(F a, F b, F c) { FB_EACH(F, a.v[i] * b.v[i] + c.v[i]); }
FB_INLINE F max(F a, F b) { FB_EACH(F, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
FB_INLINE F min(F a, F b) { FB_EACH(F, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
FB_INLINE F abs(F a) { FB_EACH(F, std::fabs(a.v[i])); }
FB_INLINE F round(F a) { FB_EACH(F, std::nearbyintf(a.v[i])); }
FB_INLINE F zero_below(F a, F x, F least) { FB_EACH(F, x.v[i] >= least.v[i] ? a.v[i] : 0.0f); }
FB_INLINE F times_power_of_two(F a, F n) { FB_EACH(F, std::ldexp(a.v[i], int(n.v[i]))); }
FB_INLINE F swap_pairs(F a) { FB_EACH(F, a.v[i ^ 1]); }
FB_INLINE F even_twice(F a) { FB_EACH(F, a.v[i & ~1]); }
FB_INLINE F odd_twice(F a) { FB_EACH(F, a.v[i | 1]); }
FB_INLINE I load_bytes(const void* p) { I r; std::memcpy(r.v, p, sizeof r.v); return r; }
FB_INLINE I set1_int(int32_t a) { FB_EACH(I, a); }
FB_INLINE I sub_int(I a, I b) { FB_EACH(I, a.v[i] - b.v[i]); }
FB_INLINE F to_float(I a) { FB_EACH(F, float(a.v[i])); }
FB_INLINE float from_bits(uint32_t bits) { float f; std::memcpy(&f, &bits, 4); return f; }
FB_INLINE uint32_t to_bits(float f) { uint32_t bits; std::memcpy(&bits, &f, 4); return bits; }
FB_INLINE F low_halves(I a) { FB_EACH(F, from_bits(uint32_t(a.v[i]) << 16)); }
FB_INLINE F high_halves(I a) { FB_EACH(F, from_bits(uint32_t(a.v[i]) & 0xffff0000u)); }
FB_INLINE I low_nibbles(I a) { FB_EACH(I, a.v[i] & 0x0f0f0f0f); }
FB_INLINE I high_nibbles(I a) { FB_EACH(I, int32_t((uint32_t(a.v[i]) >> 4) & 0x0f0f0f0fu)); }
FB_INLINE F load_bf16(const uint16_t* p) { FB_EACH(F, from_bits(uint32_t(p[i]) << 16)); }
FB_INLINE void store_bf16(uint16_t* p, F a) {
  for (int i = 0; i < 16; i++) {
    const uint32_t bits = to_bits(a.v[i]);
    p[i] = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}
FB_INLINE float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  const float magnitude = from_bits(rest << 13) * from_bits(uint32_t(127 + 112) << 23);  // exact, subnormals too
  return sign ? -magnitude : magnitude;
}
FB_INLINE F load_int8(const int8_t* p) { FB_EACH(F, float(p[i])); }
FB_INLINE F load_f16(const uint16_t* p) { FB_EACH(F, half_to_float(p[i])); }
FB_INLINE void store_int8(int8_t* p, F a) {
  for (int i = 0; i < 16; i++) {
    const float r = std::nearbyintf(a.v[i]);
    p[i] = int8_t(r > 127 ? 127 : r < -128 ? -128 : r);
  }
}
FB_INLINE I dot4(I sum, I u8, I s8) {
  const uint8_t* u = reinterpret_cast<const uint8_t*>(u8.v);
  const int8_t* s = reinterpret_cast<const int8_t*>(s8.v);
  FB_EACH(I, sum.v[i] + u[4 * i] * s[4 * i] + u[4 * i + 1] * s[4 * i + 1] + u[4 * i + 2] * s[4 * i + 2] + u[4 * i + 3] * s[4 * i + 3]);
}
#undef FB_EACH
#endif

FB_INLINE F zero() { return set1(0.0f); }

// body(0), ..., body(N - 1) with constants: accumulators in an array then stay in registers, which they don't in a loop.
#define FB_BODY(i) [&](auto i) __attribute__((always_inline))
template <class Body, int... I>
FB_INLINE void unrolled_over(Body body, std::integer_sequence<int, I...>) {
  (body(std::integral_constant<int, I>{}), ...);
}
template <int N, class Body>
FB_INLINE void unrolled(Body body) {
  unrolled_over(body, std::make_integer_sequence<int, N>{});
}

// The numbers of rows that functions are compiled for: others are made up of these.
FB_INLINE constexpr int at_most(int rows) {
  return rows >= 12 ? 12 : rows >= 8 ? 8 : rows >= 6 ? 6 : rows >= 4 ? 4 : rows;
}

// a in the lanes [first, end), b in the others.
FB_INLINE F select(F a, F b, int first, int end) {
#if defined(__AVX512F__)
  return _mm512_mask_mov_ps(b, __mmask16(((1u << end) - 1) & ~((1u << first) - 1)), a);
#else
  float chosen[kLanes], other[kLanes];
  store(chosen, a), store(other, b);
  for (int i = 0; i < kLanes; i++)
    if (i < first || i >= end) chosen[i] = other[i];
  return load(chosen);
#endif
}

// The first `count` of up to 16 lanes; the others are 0 when loaded and stay as they were when stored.
FB_INLINE F load_some(const float* p, int count) {
  if (count >= kLanes) return load(p);
  float v[kLanes] = {};
  std::memcpy(v, p, sizeof(float) * count);
  return load(v);
}
FB_INLINE void store_some(float* p, F a, int count) {
  if (count >= kLanes) return store(p, a);
  float v[kLanes];
  store(v, a);
  std::memcpy(p, v, sizeof(float) * count);
}

// In one fixed order, so that a sum doesn't depend on where it is taken.
#if defined(__AVX512F__)
FB_INLINE float reduce_add(F a) { return _mm512_reduce_add_ps(a); }
FB_INLINE float reduce_max(F a) { return _mm512_reduce_max_ps(a); }
FB_INLINE int32_t reduce_add(I a) { return _mm512_reduce_add_epi32(bits(a)); }
#else
FB_INLINE float reduce_add(F a) {
  float v[kLanes];
  store(v, a);
  for (int width = 8; width; width /= 2)
    for (int i = 0; i < width; i++) v[i] += v[i + width];
  return v[0];
}
FB_INLINE float reduce_max(F a) {
  float v[kLanes];
  store(v, a);
  for (int width = 8; width; width /= 2)
    for (int i = 0; i < width; i++) v[i] = v[i] > v[i + width] ? v[i] : v[i + width];
  return v[0];
}
FB_INLINE int32_t reduce_add(I a) {
  int32_t v[kLanes], sum = 0;
  std::memcpy(v, &a, sizeof v);
  for (int32_t one : v) sum += one;
  return sum;
}
#endif

// e ** x for x <= 88, within two units in the last place; 0 below -87.3, minus infinity included.
FB_INLINE F exp(F x) {
  const F least = set1(-87.3f);
  const F bounded = max(x, least);
  const F n = round(mul(bounded, set1(1.44269504f)));
  F r = fma(n, set1(-0.693359375f), bounded);
  r = fma(n, set1(2.12194440e-4f), r);
  F p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), set1(1.0f));
  return zero_below(times_power_of_two(p, n), x, least);
}

}  // namespace forebay
