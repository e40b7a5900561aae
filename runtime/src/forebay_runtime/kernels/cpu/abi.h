// The C interface of the native kernels: plain structs and pointers, so that one build serves every Python and torch.
// kernels/native.py mirrors these structs. Shapes: T tokens, S sequences, H heads, K key/value heads, D head dim.
#pragma once
#include <cstdint>

namespace forebay {

constexpr int kPanel = 32;   // output channels packed side by side
constexpr int kGroup = 32;   // inputs that share a scale: of int4 weights, and of int8 activations
constexpr int kTile = 16;    // slots of the KV cache that lie side by side; a block is a multiple of it
constexpr int kSplit = 256;  // keys whose softmax is taken in one go; splits begin at multiples of it

enum Kind : int32_t { kF32 = 0, kBF16 = 1, kInt8 = 2, kInt4 = 3 };
enum Activation : int32_t { kSilu = 0, kGeluTanh = 1 };

// Weights (n, k) in panels of kPanel rows, the last one filled up with zeros.
//   kF32   panel, k, row
//   kBF16  panel, k / 2, row, 2
//   kInt8  panel, k / 4 (whole groups), row, 4: weight + 128; scale[row]
//   kInt4  panel, group, {4 pairs of quads, row, 4 bytes: low half the first quad}, f16 scale[row], f16 minimum[row]
struct Linear {
  int32_t kind, n, k, unused;
  const uint8_t* data;
  const float* scale;  // kInt8 only
  const float* bias;   // n, or null
};

struct Layer {
  Linear qkv, out, gate_up, down;
  const float *attention_norm, *post_attention_norm, *feed_forward_norm, *post_feed_forward_norm;  // post: or null
  const float *query_norm, *key_norm;                                                             // or null
  const float* rotation;  // (positions, D / 2, 2): cosine, sine of each pair
  int32_t window, unused; // a token sees itself and window - 1 before it; 0: all
  // Of block 0: keys (K, block size / kTile, D, kTile), values (K, block size, padded D); for kInt8 their scales
  // (K, block size) as float32, else null.
  uint8_t *keys, *values, *key_scales, *value_scales;
};

struct Model {
  int32_t num_layers, hidden, inter, heads, kv_heads, head_dim, vocab, activation, kv_kind, max_tokens;
  float norm_eps, embedding_scale, attention_softcap, final_softcap;  // softcap 0: none
  int64_t block_bytes;  // from one block of the cache to the next: a block holds every layer
  Linear embedding, head;
  const float* norm;
  const Layer* layers;
};

// What an adapter adds to the rows [first, first + up.n) of a product's output: up (n, rank) times down (rank, k), each
// kF32, or kBF16 where its k is even. n 0: nothing.
struct LowRank {
  Linear down, up;
  int32_t first, unused;
};

constexpr int kProducts = 4, kParts = 3;  // of a layer: qkv, out, gate_up, down; what is packed into one of them
enum : int32_t { kQkv = 0, kOut = 1, kGateUp = 2, kDown = 3 };

// Tokens [first, end) of a step, which have one adapter; ranges don't overlap.
struct Adapted {
  int32_t first, end, rank, unused;  // rank: the adapter's largest
  const LowRank* parts;              // (layers, kProducts, kParts)
};

// One step, flat. Tokens of sequence s: [starts[s], starts[s + 1]); its first position is firsts[s].
struct Step {
  int32_t num_tokens, num_sequences, num_logits, block_size;
  const int32_t *ids, *starts, *firsts;
  const int32_t *blocks, *block_starts;  // block ids of sequence s: blocks[block_starts[s]...]
  const int32_t* logits_rows;
  float* logits;  // (num_logits, vocab)
  float* hidden;  // (num_logits, hidden) after the final norm, or null
  const Adapted* adapted;
  int32_t num_adapted, unused;
};

}  // namespace forebay
