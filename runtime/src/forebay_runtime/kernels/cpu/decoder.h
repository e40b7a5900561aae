// A step of the decoder as a program for the pool: embedding, layers, final norm, head.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "pool.h"
#include "work.h"

namespace forebay {

constexpr int kRowsPerTile = 4;          // tokens that one tile of a token-wise stage takes
constexpr int kRowsPerProduct = 96;      // rows that one tile of a product takes: they stay in the second cache

FB_INLINE int64_t input_stride(int k) { return (int64_t(k) + 63) / 64 * 64 + 64; }

class Decoder {
 public:
  explicit Decoder(const Model& model) : m_(model), layers_(model.layers, model.layers + model.num_layers) {
    qkv_size_ = (m_.heads + 2 * m_.kv_heads) * m_.head_dim;
    reserve(m_.max_tokens);
  }

  void run(const Step& step) {
    reserve(std::max(step.num_tokens, step.num_logits));
    step_ = &step;
    plan();
    stages_.clear();
    const int row_tiles = tiles_of(step.num_tokens, kRowsPerTile);
    add(&Decoder::embed, 0, row_tiles);
    for (int i = 0; i < m_.num_layers; i++) {
      const Layer& layer = layers_[i];
      add(&Decoder::norm_before_attention, i, row_tiles);
      add(&Decoder::qkv, i, product_tiles(layer.qkv, step.num_tokens));
      add_low_rank(i, kQkv);
      add(&Decoder::rotate_and_store, i, row_tiles);
      if (&work_of(i) == &asked_) add(&Decoder::narrow, 0, 1);
      add_after_keys(i);
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

  void add_after_keys(int i) {
    const Layer& layer = layers_[i];
    const Work& work = work_of(i);
    const int row_tiles = tiles_of(work.rows(), kRowsPerTile);
    add(&Decoder::attend, i, int(work.queries.size()) * m_.kv_heads * work.splits);
    add(&Decoder::prepare_out, i, row_tiles);
    add(&Decoder::out, i, product_tiles(layer.out, work.rows()));
    add_low_rank(i, kOut);
    add(&Decoder::norm_before_feed_forward, i, row_tiles);
    add(&Decoder::gate_up, i, product_tiles(layer.gate_up, work.rows()));
    add_low_rank(i, kGateUp);
    add(&Decoder::gate, i, row_tiles);
    add(&Decoder::down, i, product_tiles(layer.down, work.rows()));
    add_low_rank(i, kDown);
  }

  // No stage, and so no cost, where no token has an adapter.
  void add_low_rank(int layer, int product) {
    const LowRanks& low_ranks = work_of(layer, product).low_ranks;
    if (!low_ranks.shrink_tiles()) return;
    add(&Decoder::shrink, layer * kProducts + product, low_ranks.shrink_tiles());
    add(&Decoder::expand, layer * kProducts + product, low_ranks.expand_tiles());
  }

  // Once the last layer has stored its keys and values, only the tokens that are asked for go on.
  void plan() {
    const Step& s = *step_;
    whole_.tokens.resize(s.num_tokens);
    std::iota(whole_.tokens.begin(), whole_.tokens.end(), 0);
    whole_.plan(s, m_, num_threads(), kRowsPerProduct);
    for (int i = 0; i < s.num_sequences; i++)
      for (int t = s.starts[i]; t < s.starts[i + 1]; t++)
        blocks_[t] = s.blocks[s.block_starts[i] + whole_.positions[t] / s.block_size];
    asked_.tokens.assign(s.logits_rows, s.logits_rows + s.num_logits);
    std::sort(asked_.tokens.begin(), asked_.tokens.end());
    asked_.tokens.erase(std::unique(asked_.tokens.begin(), asked_.tokens.end()), asked_.tokens.end());
    narrows_ = m_.num_layers && asked_.rows() < s.num_tokens;
    if (narrows_) asked_.plan(s, m_, num_threads(), kRowsPerProduct);
  }

  Work& work_of(int layer) { return narrows_ && layer == m_.num_layers - 1 ? asked_ : whole_; }
  Work& work_of(int layer, int product) { return product == kQkv ? whole_ : work_of(layer); }

  // The rows that are asked for come to the front.
  void narrow(int, int) {
    for (int row = 0; row < asked_.rows(); row++) {
      const int64_t from = asked_.tokens[row];
      std::memmove(x(row), x(int(from)), sizeof(float) * m_.hidden);
      std::memmove(qkv_.data() + row * qkv_size_, qkv_.data() + from * qkv_size_, sizeof(float) * m_.heads * m_.head_dim);
    }
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
      const float* rotation = layer.rotation + int64_t(whole_.positions[t]) * dim;
      for (int h = 0; h < m_.heads + m_.kv_heads; h++) {
        const float* weight = h < m_.heads ? layer.query_norm : layer.key_norm;
        if (weight) rms_norm(heads + h * dim, weight, dim, m_.norm_eps, heads + h * dim);
        rotate(heads + h * dim, rotation, dim);
      }
      const float *keys = heads + m_.heads * dim, *values = keys + m_.kv_heads * dim;
      const int at = whole_.positions[t] % step_->block_size;
      for (int h = 0; h < m_.kv_heads; h++) {
        with_cache([&](auto cache) {
          write_slot<decltype(cache)>(key_values(layer), h, blocks_[t], at, keys + h * dim, values + h * dim);
        });
      }
    });
  }

  void attend(int i, int tile) {
    Work& work = work_of(i);
    const int head = tile % m_.kv_heads, split = tile / m_.kv_heads % work.splits;
    const Query& query = work.queries[tile / m_.kv_heads / work.splits];
    with_cache([&](auto cache) { attend_query<decltype(cache)>(layers_[i], work, query, head, split); });
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
  void attend_query(const Layer& layer, Work& work, const Query& query, int head, int split) {
    const int group = m_.heads / m_.kv_heads, dim = m_.head_dim;
    const int count = (query.end - query.first) * group;
    float queries[kMaxHeadDim * kMaxRows];
    int positions[kMaxRows];
    Partial fresh[kMaxRows], whole[kMaxRows];
    for (int row = 0, rows; row < count; row += rows) {
      rows = at_most(std::min(kMaxRows, count - row));
      for (int r = 0; r < rows; r++) {
        const int at = query.first + (row + r) / group;
        const float* q = qkv_.data() + int64_t(at) * qkv_size_ + (head * group + (row + r) % group) * dim;
        for (int d = 0; d < dim; d++) queries[d * rows + r] = q[d];
        positions[r] = work.positions[at];
        whole[r].most = -INFINITY;
      }
      const int earliest = layer.window ? std::max(0, positions[0] - layer.window + 1) / kSplit : 0;
      const int last = positions[rows - 1] / kSplit;
      const Rows block{queries, positions, layer.window, m_.attention_softcap};
      const int32_t* blocks = step_->blocks + step_->block_starts[query.sequence];
      for (int s = work.splits > 1 ? split : earliest; s <= (work.splits > 1 ? split : last); s++) {
        if (s < earliest || s > last) break;
        attend_rows<Cache>(rows, key_values(layer), head, blocks, block, s * kSplit, fresh);
        for (int r = 0; r < rows; r++) merge(whole[r], fresh[r], padded(dim));
      }
      for (int r = 0; r < rows; r++) {
        const int at = query.first + (row + r) / group, h = head * group + (row + r) % group;
        if (work.splits > 1)
          work.partials[(size_t(at) * m_.heads + h) * work.splits + split] = whole[r];
        else
          finish(whole[r], dim, attended(at) + h * dim);
      }
    }
  }

  float* attended(int row) { return attended_.data() + int64_t(row) * m_.heads * m_.head_dim; }

  void prepare_out(int i, int tile) {
    const Work& work = work_of(i);
    each_row(tile, work.rows(), [&](int row) {
      for (int h = 0; h < m_.heads && work.splits > 1; h++) {
        const Partial* parts = work.partials.data() + (size_t(row) * m_.heads + h) * work.splits;
        Partial whole = parts[0];
        for (int s = 1; s < work.splits; s++) merge(whole, parts[s], padded(m_.head_dim));
        finish(whole, m_.head_dim, attended(row) + h * m_.head_dim);
      }
      prepare(layers_[i].out, attended(row), input_, row);
    });
  }

  void out(int i, int tile) {
    multiply(layers_[i].out, work_of(i).rows(), output_of(layers_[i], kOut), tile);
  }

  void norm_before_feed_forward(int i, int tile) {
    each_row(tile, work_of(i).rows(), [&](int row) {
      if (layers_[i].post_attention_norm) add_normed(row, layers_[i].post_attention_norm);
      norm_into(layers_[i].gate_up, x(row), layers_[i].feed_forward_norm, row);
    });
  }

  void gate_up(int i, int tile) {
    multiply(layers_[i].gate_up, work_of(i).rows(), output_of(layers_[i], kGateUp), tile);
  }

  void gate(int i, int tile) {
    each_row(tile, work_of(i).rows(), [&](int row) {
      float* both = gate_up_.data() + int64_t(row) * 2 * m_.inter;
      gated(both, m_.inter, m_.activation, both);
      prepare(layers_[i].down, both, input_, row);
    });
  }

  void down(int i, int tile) {
    multiply(layers_[i].down, work_of(i).rows(), output_of(layers_[i], kDown), tile);
  }

  void shrink(int argument, int tile) {
    const int layer = argument / kProducts, product = argument % kProducts;
    LowRanks& low_ranks = work_of(layer, product).low_ranks;
    switch (product) {
      case kOut: return low_ranks.shrink(layer, product, attended_.data(), int64_t(m_.heads) * m_.head_dim, tile);
      case kDown: return low_ranks.shrink(layer, product, gate_up_.data(), 2 * int64_t(m_.inter), tile);
      default: return low_ranks.shrink(layer, product, normed_.data(), input_.stride, tile);
    }
  }

  void expand(int argument, int tile) {
    const int layer = argument / kProducts, product = argument % kProducts;
    work_of(layer, product).low_ranks.expand(layer, product, output_of(layers_[layer], product), tile);
  }

  void final_norm(int, int tile) {
    const float* post = m_.num_layers ? layers_[m_.num_layers - 1].post_feed_forward_norm : nullptr;
    each_row(tile, step_->num_logits, [&](int row) {
      const int from = asked_row(step_->logits_rows[row]);
      if (post) add_normed(from, post);
      norm_into(m_.head, x(from), m_.norm, row);
      if (step_->hidden)
        std::memcpy(step_->hidden + int64_t(row) * m_.hidden, normed_.data() + int64_t(row) * input_.stride,
                    sizeof(float) * m_.hidden);
    });
  }

  int asked_row(int token) const {
    if (!narrows_) return token;
    return int(std::lower_bound(asked_.tokens.begin(), asked_.tokens.end(), token) - asked_.tokens.begin());
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
    blocks_.resize(n);
    input_.values = normed_.data(), input_.quants = quants_.data(), input_.scales = scales_.data();
    input_.offsets = offsets_.data(), input_.sums = sums_.data();
  }

  const Model m_;
  const std::vector<Layer> layers_;
  int64_t qkv_size_ = 0;
  int reserved_ = 0;
  bool narrows_ = false;
  std::vector<float> x_, branch_, normed_, qkv_, attended_, gate_up_, scales_, sums_;
  std::vector<int8_t> quants_;
  std::vector<int32_t> offsets_, blocks_;
  Work whole_, asked_;
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
