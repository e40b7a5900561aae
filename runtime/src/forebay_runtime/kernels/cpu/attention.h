// Causal attention over the paged cache. Rows are the queries of one key/value head: tokens times query heads.
//
// Each split of kSplit keys has a softmax of its own, whatever else is in the call, and splits are merged from the first
// to the last. Scores sum over D and outputs over keys one after another. So a query's result is the same whether it
// comes alone or in a chunk, and whether its splits are computed by one thread or by several.
#pragma once
#include "rows.h"

namespace forebay {

constexpr int kMaxHeadDim = 256;

struct F32Cache {
  using T = float;
  static constexpr bool kScaled = false;
  FB_INLINE F read(const float* p) { return load(p); }
};
struct BF16Cache {
  using T = uint16_t;
  static constexpr bool kScaled = false;
  FB_INLINE F read(const uint16_t* p) { return load_bf16(p); }
};
struct Int8Cache {  // each token's key and value of a head has a scale of its own
  using T = int8_t;
  static constexpr bool kScaled = true;
  FB_INLINE F read(const int8_t* p) { return load_int8(p); }
};

FB_INLINE int padded(int head_dim) { return (head_dim + kLanes - 1) / kLanes * kLanes; }

struct KeyValues {
  uint8_t *keys, *values, *key_scales, *value_scales;
  int64_t block_bytes;
  int head_dim, block_size;
};

template <class Cache>
FB_INLINE typename Cache::T* key_tile(const KeyValues& kv, int head, int64_t block, int tile) {
  uint8_t* first = kv.keys + block * kv.block_bytes;
  return reinterpret_cast<typename Cache::T*>(first) + (head * (kv.block_size / kTile) + tile) * kv.head_dim * kTile;
}
template <class Cache>
FB_INLINE typename Cache::T* value_row(const KeyValues& kv, int head, int64_t block, int row) {
  uint8_t* first = kv.values + block * kv.block_bytes;
  return reinterpret_cast<typename Cache::T*>(first) + (head * kv.block_size + row) * padded(kv.head_dim);
}

template <class Cache>
FB_INLINE float* scales_of(const KeyValues& kv, uint8_t* scales, int head, int64_t block, int row) {
  return reinterpret_cast<float*>(scales + block * kv.block_bytes) + head * kv.block_size + row;
}

// x (n) as the cache holds it, one number each `step` places.
template <class Cache>
FB_INLINE void write_row(const float* x, int n, typename Cache::T* to, int step, float* scale) {
  F inverse = set1(1);
  if constexpr (Cache::kScaled) {
    F largest = zero();
    for (int i = 0; i < n; i += kLanes) largest = max(largest, abs(load_some(x + i, n - i)));
    const float most = reduce_max(largest);
    *scale = most / 127;
    inverse = set1(most > 0 ? 127 / most : 0);
  }
  for (int i = 0; i < n; i += kLanes) {
    const F v = load_some(x + i, n - i);
    typename Cache::T lanes[kLanes];
    if constexpr (Cache::kScaled) store_int8(lanes, mul(v, inverse));
    else if constexpr (sizeof(typename Cache::T) == 2) store_bf16(lanes, v);
    else store(lanes, v);
    for (int j = 0; j < kLanes && i + j < n; j++) to[(i + j) * step] = lanes[j];
  }
}

template <class Cache>
static void write_slot(const KeyValues& kv, int head, int64_t block, int at, const float* key, const float* value) {
  write_row<Cache>(key, kv.head_dim, key_tile<Cache>(kv, head, block, at / kTile) + at % kTile, kTile,
                   scales_of<Cache>(kv, kv.key_scales, head, block, at));
  write_row<Cache>(value, kv.head_dim, value_row<Cache>(kv, head, block, at), 1,
                   scales_of<Cache>(kv, kv.value_scales, head, block, at));
}

// What is known of a row's softmax so far: `sums` and `acc` (padded D) are relative to e ** most.
struct Partial {
  float most, sum;
  float acc[kMaxHeadDim];
};

FB_INLINE void merge(Partial& into, const Partial& next, int width) {
  const float none = -INFINITY;
  if (next.most == none) return;
  if (into.most == none) {
    into.most = next.most, into.sum = next.sum;
    std::memcpy(into.acc, next.acc, sizeof(float) * width);
    return;
  }
  const float most = into.most > next.most ? into.most : next.most;
  float old_and_new[kLanes] = {into.most - most, next.most - most};
  store(old_and_new, exp(load(old_and_new)));
  const F old = set1(old_and_new[0]), fresh = set1(old_and_new[1]);
  into.most = most;
  into.sum = into.sum * old_and_new[0] + next.sum * old_and_new[1];
  for (int d = 0; d < width; d += kLanes)
    store(into.acc + d, fma(load(into.acc + d), old, mul(load(next.acc + d), fresh)));
}

FB_INLINE void finish(const Partial& p, int head_dim, float* out) {
  const F inverse = set1(1 / p.sum);
  for (int d = 0; d < head_dim; d += kLanes) store_some(out + d, mul(load(p.acc + d), inverse), head_dim - d);
}

// Scores of R rows against T tiles of keys. queries (D, R)
template <class Cache, int R, int T>
FB_INLINE void score(const float* queries, const typename Cache::T* const* tiles, int head_dim, float* scores) {
  F sum[R][T];
  unrolled<R>(FB_BODY(r) { unrolled<T>(FB_BODY(t) { sum[r][t] = zero(); }); });
  for (int d = 0; d < head_dim; d++) {
    F keys[T];
    unrolled<T>(FB_BODY(t) { keys[t] = Cache::read(tiles[t] + d * kTile); });
    unrolled<R>(FB_BODY(r) {
      const F q = set1(queries[d * R + r]);
      unrolled<T>(FB_BODY(t) { sum[r][t] = fma(q, keys[t], sum[r][t]); });
    });
  }
  unrolled<R>(FB_BODY(r) { unrolled<T>(FB_BODY(t) { store(scores + r * kSplit + t * kTile, sum[r][t]); }); });
}

// acc (R, V vectors) += weights (R, keys) * values
template <class Cache, int R, int V>
FB_INLINE void weigh(const float* weights, const typename Cache::T* const* tiles, int first, int end, int width, int at,
                     Partial* partials) {
  F sum[R][V];
  unrolled<R>(FB_BODY(r) { unrolled<V>(FB_BODY(v) { sum[r][v] = zero(); }); });
  for (int key = first; key < end; key++) {
    const typename Cache::T* row = tiles[key / kTile] + (key % kTile) * width + at;
    F values[V];
    unrolled<V>(FB_BODY(v) { values[v] = Cache::read(row + v * kLanes); });
    unrolled<R>(FB_BODY(r) {
      const F p = set1(weights[r * kSplit + key]);
      unrolled<V>(FB_BODY(v) { sum[r][v] = fma(p, values[v], sum[r][v]); });
    });
  }
  unrolled<R>(FB_BODY(r) { unrolled<V>(FB_BODY(v) { store(partials[r].acc + at + v * kLanes, sum[r][v]); }); });
}

template <class Cache, int R>
FB_INLINE void weigh_rows(const float* weights, const typename Cache::T* const* tiles, int first, int end, int width,
                          Partial* partials) {
  constexpr int V = kMaxRows < 12 ? 1 : R > 6 ? 2 : 4;  // as many accumulators as registers hold
  int at = 0;
  if constexpr (V > 1)
    for (; at + V * kLanes <= width; at += V * kLanes) weigh<Cache, R, V>(weights, tiles, first, end, width, at, partials);
  for (; at < width; at += kLanes) weigh<Cache, R, 1>(weights, tiles, first, end, width, at, partials);
}

struct Rows {
  const float* queries;  // (D, R)
  const int* positions;  // of each row; ascending
  int window;
  float softcap;
};

// The keys [begin, begin + kSplit) of one split for R rows; `blocks` are the sequence's.
template <class Cache, int R>
static void attend_split(const KeyValues& kv, int head, const int32_t* blocks, const Rows& rows, int begin,
                         Partial* partials) {
  const int width = padded(kv.head_dim), per_block = kv.block_size / kTile;
  const int last = rows.positions[R - 1];
  const int end = last + 1 < begin + kSplit ? last + 1 - begin : kSplit;
  const int earliest = rows.window ? rows.positions[0] - rows.window + 1 : 0;
  const int first = (earliest > begin ? earliest - begin : 0) / kTile * kTile;
  constexpr int kTilesPerSplit = kSplit / kTile;
  const typename Cache::T *key_tiles[kTilesPerSplit], *value_tiles[kTilesPerSplit];
  const float *key_scales[kTilesPerSplit], *value_scales[kTilesPerSplit];  // where there are any
  const int tiles = (end + kTile - 1) / kTile;
  for (int t = first / kTile; t < tiles; t++) {
    const int at = begin / kTile + t;
    const int64_t block = blocks[at / per_block];
    key_tiles[t] = key_tile<Cache>(kv, head, block, at % per_block);
    value_tiles[t] = value_row<Cache>(kv, head, block, at % per_block * kTile);
    if constexpr (Cache::kScaled) {
      key_scales[t] = scales_of<Cache>(kv, kv.key_scales, head, block, at % per_block * kTile);
      value_scales[t] = scales_of<Cache>(kv, kv.value_scales, head, block, at % per_block * kTile);
    }
  }
  alignas(64) float scores[R * kSplit];
  constexpr int T = R <= 3 ? 4 : R <= 6 ? 2 : 1;
  int t = first / kTile;
  if (kMaxRows >= 12)
    for (; t + T <= tiles; t += T)
      score<Cache, R, T>(rows.queries, key_tiles + t, kv.head_dim, scores + t * kTile);
  for (; t < tiles; t++) score<Cache, R, 1>(rows.queries, key_tiles + t, kv.head_dim, scores + t * kTile);

  for (int r = 0; r < R; r++) {
    float* row = scores + r * kSplit;
    const int seen = rows.positions[r] + 1 - begin;                                   // keys before this one
    const int hidden = rows.window ? rows.positions[r] - rows.window + 1 - begin : 0;  // and from this one on
    F most = set1(-INFINITY);
    for (int i = first; i < tiles * kTile; i += kTile) {
      F s = load(row + i);
      if constexpr (Cache::kScaled) s = mul(s, load(key_scales[i / kTile]));
      if (rows.softcap > 0) s = capped(s, rows.softcap);
      const int shown = seen - i < 0 ? 0 : seen - i > kTile ? kTile : seen - i;
      const int covered = hidden - i < 0 ? 0 : hidden - i > kTile ? kTile : hidden - i;
      if (shown < kTile || covered > 0) s = select(s, set1(-INFINITY), covered, shown > covered ? shown : covered);
      store(row + i, s);
      most = max(most, s);
    }
    partials[r].most = reduce_max(most);
    const F base = set1(partials[r].most == -INFINITY ? 0 : partials[r].most);
    F sum = zero();
    for (int i = first; i < tiles * kTile; i += kTile) {
      const F p = exp(sub(load(row + i), base));
      sum = add(sum, p);
      if constexpr (Cache::kScaled)
        store(row + i, mul(p, load(value_scales[i / kTile])));
      else
        store(row + i, p);
    }
    partials[r].sum = reduce_add(sum);
  }
  weigh_rows<Cache, R>(scores, value_tiles, first, end, width, partials);
}

template <class Cache, int R = kMaxRows>
static void attend_rows(int count, const KeyValues& kv, int head, const int32_t* blocks, const Rows& rows, int begin,
                        Partial* partials) {
  if constexpr (R > 0) {
    if (count == R) return attend_split<Cache, R>(kv, head, blocks, rows, begin, partials);
    attend_rows<Cache, at_most(R - 1)>(count, kv, head, blocks, rows, begin, partials);
  }
}

}  // namespace forebay
