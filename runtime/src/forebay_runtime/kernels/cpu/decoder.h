// A step of the decoder as a program for the pool: embedding, layers, final norm, head.
#pragma once
#include <algorithm>
#include <vector>

#include "attention.h"
#include "low_rank.h"
#include "pool.h"

namespace forebay {

constexpr int kRowsPerTile = 4;          // tokens that one tile of a token-wise stage takes
constexpr int kRowsPerProduct = 96;      // rows that one tile of a product takes: they stay in the second cache
constexpr int kTokensPerAttention = 16;  // queries of one sequence that one tile of attention takes

FB_INLINE int64_t input_stride(int k) { return (int64_t(k) + 63) / 64 * 64 + 64; }

// The units of attention are the same for every layer but for the heads.
struct Query {
  int sequence, first, end;  // tokens of the step
};

class Decoder {
 public:
  explicit Decoder(const Model& model) : m_(model), layers_(model.layers, model.layers + model.num_layers) {
    qkv_size_ = (m_.heads + 2 * m_.kv_heads) * m_.head_dim;
    reserve(m_.max_tokens);
  }

  void run(const Step& step) {
    reserve(std::max(step.num_tokens, step.num_logits));
    step_ = &step;
    plan_attention();
    low_ranks_.plan(step, kRowsPerProduct);
    stages_.clear();
    const int row_tiles = tiles_of(step.num_tokens, kRowsPerTile);
    add(&Decoder::embed, 0, row_tiles);
    for (int i = 0; i < m_.num_layers; i++) {
      const Layer& layer = layers_[i];
      add(&Decoder::norm_before_attention, i, row_tiles);
      add(&Decoder::qkv, i, product_tiles(layer.qkv, step.num_tokens));
      add_low_rank(i, kQkv);
      add(&Decoder::rotate_and_store, i, row_tiles);
      add(&Decoder::attend, i, int(queries_.size()) * m_.kv_heads * splits_);
      add(&Decoder::prepare_out, i, row_tiles);
      add(&Decoder::out, i, product_tiles(layer.out, step.num_tokens));
      add_low_rank(i, kOut);
      add(&Decoder::norm_before_feed_forward, i, row_tiles);
      add(&Decoder::gate_up, i, product_tiles(layer.gate_up, step.num_tokens));
      add_low_rank(i, kGateUp);
      add(&Decoder::gate, i, row_tiles);
      add(&Decoder::down, i, product_tiles(layer.down, step.num_tokens));
      add_low_rank(i, kDown);
    }
    if (step.num_logits) {
      add(&Decoder::final_norm, 0, tiles_of(step.num_logits, kRowsPerTile));
      if (step.logits) add(&Decoder::head, 0, product_tiles(m_.head, step.num_logits));
      if (step.logits && m_.final_softcap > 0) add(&Decoder::cap, 0, step.num_logits);
    }
    run_stages(stages_.data(), int(stages_.size()));
  }

 private:
  using Method = void (Decoder::*)(int argument, int tile);

  struct Call {
    Decoder* decoder;
    Method method;
  };

  void add(Method method, int argument, int tiles) {
    auto found = std::find_if(calls_.begin(), calls_.end(), [&](const Call& c) { return c.method == method; });
    if (found == calls_.end()) found = calls_.insert(calls_.end(), Call{this, method});
    stages_.push_back({invoke, &*found, argument, tiles});
  }

  // No stage, and so no cost, where no token has an adapter.
  void add_low_rank(int layer, int product) {
    if (!low_ranks_.shrink_tiles()) return;
    add(&Decoder::shrink, layer * kProducts + product, low_ranks_.shrink_tiles());
    add(&Decoder::expand, layer * kProducts + product, low_ranks_.expand_tiles());
  }

  static void invoke(const void* context, int argument, int tile) {
    const Call& call = *static_cast<const Call*>(context);
    (call.decoder->*call.method)(argument, tile);
  }

  static int tiles_of(int count, int size) { return (count + size - 1) / size; }

  // Half panels of few rows would be too small to share out; chunks of many rows share the panel that is in the cache.
  static int product_tiles(const Linear& w, int rows) { return panels(w) * tiles_of(rows, kRowsPerProduct); }

  void multiply(const Linear& w, int rows, const Output& output, int tile) {
    const int panel = tile % panels(w), chunk = tile / panels(w);
    product(w, input_, output, panel, chunk * kRowsPerProduct, std::min(rows, (chunk + 1) * kRowsPerProduct));
  }

  template <class Each>
  void each_row(int tile, int count, Each each) {
    for (int row = tile * kRowsPerTile; row < std::min(count, (tile + 1) * kRowsPerTile); row++) each(row);
  }

  void embed(int, int tile) {
    each_row(tile, step_->num_tokens, [&](int t) {
      unpacked_row(m_.embedding, step_->ids[t], m_.embedding_scale, x_.data() + int64_t(t) * m_.hidden);
    });
  }

  float* x(int token) { return x_.data() + int64_t(token) * m_.hidden; }

  // A token's contribution of the sub-layer before is added here where it has to be normed first.
  void add_normed(int token, const float* weight) {
    float* branch = branch_.data() + int64_t(token) * m_.hidden;
    rms_norm(branch, weight, m_.hidden, m_.norm_eps, branch);
    for (int i = 0; i < m_.hidden; i += kLanes)
      store_some(x(token) + i, ::forebay::add(load_some(x(token) + i, m_.hidden - i), load_some(branch + i, m_.hidden - i)),
                 m_.hidden - i);
  }

  Output branch_or_residual(bool normed) {
    return normed ? Output{branch_.data(), m_.hidden, false} : Output{x_.data(), m_.hidden, true};
  }

  Output output_of(const Layer& layer, int product) {
    switch (product) {
      case kQkv: return {qkv_.data(), qkv_size_, false};
      case kOut: return branch_or_residual(layer.post_attention_norm);
      case kGateUp: return {gate_up_.data(), 2 * m_.inter, false};
      default: return branch_or_residual(layer.post_feed_forward_norm);
    }
  }

  void norm_into(const Linear& w, const float* from, const float* weight, int row) {
    float* to = normed_.data() + int64_t(row) * input_.stride;
    rms_norm(from, weight, m_.hidden, m_.norm_eps, to);
    prepare(w, to, input_, row);
  }

  void norm_before_attention(int i, int tile) {
    each_row(tile, step_->num_tokens, [&](int t) {
      if (i && layers_[i - 1].post_feed_forward_norm) add_normed(t, layers_[i - 1].post_feed_forward_norm);
      norm_into(layers_[i].qkv, x(t), layers_[i].attention_norm, t);
    });
  }

  void qkv(int i, int tile) {
    multiply(layers_[i].qkv, step_->num_tokens, output_of(layers_[i], kQkv), tile);
  }

  KeyValues key_values(const Layer& layer) const {
    return {layer.keys, layer.values, layer.key_scales, layer.value_scales, m_.block_bytes, m_.head_dim, step_->block_size};
  }

  void rotate_and_store(int i, int tile) {
    const Layer& layer = layers_[i];
    const int dim = m_.head_dim;
    each_row(tile, step_->num_tokens, [&](int t) {
      float* heads = qkv_.data() + int64_t(t) * qkv_size_;
      const float* rotation = layer.rotation + int64_t(positions_[t]) * dim;
      for (int h = 0; h < m_.heads + m_.kv_heads; h++) {
        const float* weight = h < m_.heads ? layer.query_norm : layer.key_norm;
        if (weight) rms_norm(heads + h * dim, weight, dim, m_.norm_eps, heads + h * dim);
        rotate(heads + h * dim, rotation, dim);
      }
      const float *keys = heads + m_.heads * dim, *values = keys + m_.kv_heads * dim;
      const int at = positions_[t] % step_->block_size;
      for (int h = 0; h < m_.kv_heads; h++) {
        with_cache([&](auto cache) {
          write_slot<decltype(cache)>(key_values(layer), h, blocks_[t], at, keys + h * dim, values + h * dim);
        });
      }
    });
  }

  // Who attends to what. Where there are few units, splits are units of their own, and are merged by prepare_out.
  void plan_attention() {
    const Step& s = *step_;
    queries_.clear();
    int longest = 1;
    for (int i = 0; i < s.num_sequences; i++) {
      for (int t = s.starts[i]; t < s.starts[i + 1]; t++) {
        const int position = s.firsts[i] + t - s.starts[i];
        positions_[t] = position;
        blocks_[t] = s.blocks[s.block_starts[i] + position / s.block_size];
        longest = std::max(longest, position + 1);
      }
      for (int t = s.starts[i]; t < s.starts[i + 1]; t += kTokensPerAttention)
        queries_.push_back({i, t, std::min(t + kTokensPerAttention, s.starts[i + 1])});
    }
    // the longest first, so that none is left for the end
    std::stable_sort(queries_.begin(), queries_.end(),
                     [&](const Query& a, const Query& b) { return positions_[a.end - 1] > positions_[b.end - 1]; });
    const bool few = int(queries_.size()) * m_.kv_heads < 8 * num_threads() && s.num_tokens <= 16;
    splits_ = few ? tiles_of(longest, kSplit) : 1;
    if (splits_ > 1) partials_.resize(size_t(s.num_tokens) * m_.heads * splits_);
  }

  void attend(int i, int tile) {
    const int head = tile % m_.kv_heads, split = tile / m_.kv_heads % splits_;
    const Query& query = queries_[tile / m_.kv_heads / splits_];
    with_cache([&](auto cache) { attend_query<decltype(cache)>(layers_[i], query, head, split); });
  }

  template <class Body>
  void with_cache(Body body) const {
    switch (m_.kv_kind) {
      case kF32: return body(F32Cache{});
      case kInt8: return body(Int8Cache{});
      default: return body(BF16Cache{});
    }
  }

  template <class Cache>
  void attend_query(const Layer& layer, const Query& query, int head, int split) {
    const int group = m_.heads / m_.kv_heads, dim = m_.head_dim;
    const int count = (query.end - query.first) * group;
    float queries[kMaxHeadDim * kMaxRows];
    int positions[kMaxRows];
    Partial fresh[kMaxRows], whole[kMaxRows];
    for (int row = 0, rows; row < count; row += rows) {
      rows = at_most(std::min(kMaxRows, count - row));
      for (int r = 0; r < rows; r++) {
        const int token = query.first + (row + r) / group;
        const float* q = qkv_.data() + int64_t(token) * qkv_size_ + (head * group + (row + r) % group) * dim;
        for (int d = 0; d < dim; d++) queries[d * rows + r] = q[d];
        positions[r] = positions_[token];
        whole[r].most = -INFINITY;
      }
      const int earliest = layer.window ? std::max(0, positions[0] - layer.window + 1) / kSplit : 0;
      const int last = positions[rows - 1] / kSplit;
      const Rows block{queries, positions, layer.window, m_.attention_softcap};
      const int32_t* blocks = step_->blocks + step_->block_starts[query.sequence];
      for (int s = splits_ > 1 ? split : earliest; s <= (splits_ > 1 ? split : last); s++) {
        if (s < earliest || s > last) break;
        attend_rows<Cache>(rows, key_values(layer), head, blocks, block, s * kSplit, fresh);
        for (int r = 0; r < rows; r++) merge(whole[r], fresh[r], padded(dim));
      }
      for (int r = 0; r < rows; r++) {
        const int token = query.first + (row + r) / group, h = head * group + (row + r) % group;
        if (splits_ > 1)
          partials_[(size_t(token) * m_.heads + h) * splits_ + split] = whole[r];
        else
          finish(whole[r], dim, attended(token) + h * dim);
      }
    }
  }

  float* attended(int token) { return attended_.data() + int64_t(token) * m_.heads * m_.head_dim; }

  void prepare_out(int i, int tile) {
    each_row(tile, step_->num_tokens, [&](int t) {
      for (int h = 0; h < m_.heads && splits_ > 1; h++) {
        const Partial* parts = partials_.data() + (size_t(t) * m_.heads + h) * splits_;
        Partial whole = parts[0];
        for (int s = 1; s < splits_; s++) merge(whole, parts[s], padded(m_.head_dim));
        finish(whole, m_.head_dim, attended(t) + h * m_.head_dim);
      }
      prepare(layers_[i].out, attended(t), input_, t);
    });
  }

  void out(int i, int tile) {
    multiply(layers_[i].out, step_->num_tokens, output_of(layers_[i], kOut), tile);
  }

  void norm_before_feed_forward(int i, int tile) {
    each_row(tile, step_->num_tokens, [&](int t) {
      if (layers_[i].post_attention_norm) add_normed(t, layers_[i].post_attention_norm);
      norm_into(layers_[i].gate_up, x(t), layers_[i].feed_forward_norm, t);
    });
  }

  void gate_up(int i, int tile) {
    multiply(layers_[i].gate_up, step_->num_tokens, output_of(layers_[i], kGateUp), tile);
  }

  void gate(int i, int tile) {
    each_row(tile, step_->num_tokens, [&](int t) {
      float* both = gate_up_.data() + int64_t(t) * 2 * m_.inter;
      gated(both, m_.inter, m_.activation, both);
      prepare(layers_[i].down, both, input_, t);
    });
  }

  void down(int i, int tile) {
    multiply(layers_[i].down, step_->num_tokens, output_of(layers_[i], kDown), tile);
  }

  void shrink(int argument, int tile) {
    const int layer = argument / kProducts, product = argument % kProducts;
    switch (product) {
      case kOut: return low_ranks_.shrink(layer, product, attended_.data(), int64_t(m_.heads) * m_.head_dim, tile);
      case kDown: return low_ranks_.shrink(layer, product, gate_up_.data(), 2 * int64_t(m_.inter), tile);
      default: return low_ranks_.shrink(layer, product, normed_.data(), input_.stride, tile);
    }
  }

  void expand(int argument, int tile) {
    const int layer = argument / kProducts, product = argument % kProducts;
    low_ranks_.expand(layer, product, output_of(layers_[layer], product), tile);
  }

  void final_norm(int, int tile) {
    const float* post = m_.num_layers ? layers_[m_.num_layers - 1].post_feed_forward_norm : nullptr;
    each_row(tile, step_->num_logits, [&](int row) {
      const int token = step_->logits_rows[row];
      if (post) add_normed(token, post);
      norm_into(m_.head, x(token), m_.norm, row);
      if (step_->hidden)
        std::memcpy(step_->hidden + int64_t(row) * m_.hidden, normed_.data() + int64_t(row) * input_.stride,
                    sizeof(float) * m_.hidden);
    });
  }

  void head(int, int tile) { multiply(m_.head, step_->num_logits, {step_->logits, m_.vocab, false}, tile); }

  void cap(int, int row) {
    float* logits = step_->logits + int64_t(row) * m_.vocab;
    for (int i = 0; i < m_.vocab; i += kLanes)
      store_some(logits + i, capped(load_some(logits + i, m_.vocab - i), m_.final_softcap), m_.vocab - i);
  }

  void reserve(int tokens) {
    if (tokens <= reserved_) return;
    reserved_ = tokens;
    const int64_t widest = std::max({m_.hidden, m_.inter, m_.heads * m_.head_dim}), n = tokens;
    input_.stride = input_stride(int(widest));
    x_.resize(n * m_.hidden);
    branch_.resize(n * m_.hidden);
    normed_.resize(n * input_.stride);
    qkv_.resize(n * qkv_size_);
    attended_.resize(n * m_.heads * m_.head_dim);
    gate_up_.resize(n * 2 * m_.inter);
    quants_.resize(n * input_.stride);
    input_.groups = groups_of(int(widest));
    scales_.resize(n * input_.groups);
    sums_.resize(n * input_.groups);
    offsets_.resize(n * input_.groups);
    positions_.resize(n);
    blocks_.resize(n);
    input_.values = normed_.data(), input_.quants = quants_.data(), input_.scales = scales_.data();
    input_.offsets = offsets_.data(), input_.sums = sums_.data();
  }

  const Model m_;
  const std::vector<Layer> layers_;
  int64_t qkv_size_ = 0;
  int reserved_ = 0, splits_ = 1;
  std::vector<float> x_, branch_, normed_, qkv_, attended_, gate_up_, scales_, sums_;
  std::vector<int8_t> quants_;
  std::vector<int32_t> offsets_, positions_, blocks_;
  std::vector<Query> queries_;
  std::vector<Partial> partials_;
  LowRanks low_ranks_;
  std::vector<Stage> stages_;
  std::vector<Call> calls_ = make_calls();
  Input input_{};
  const Step* step_ = nullptr;

  static std::vector<Call> make_calls() {
    std::vector<Call> calls;
    calls.reserve(32);  // their addresses are taken
    return calls;
  }
};

}  // namespace forebay
