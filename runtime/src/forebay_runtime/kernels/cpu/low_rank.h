// What adapters add to a step's products: up (down x) (LoRA, Hu et al., 2021), for the rows that have an adapter.
#pragma once
#include <algorithm>
#include <vector>

#include "linear.h"

namespace forebay {

class LowRanks {
 public:
  // Row r is the step's token tokens[r]; they are ascending.
  void plan(const Step& step, const std::vector<int32_t>& tokens, int rows_per_tile) {
    const auto row_of = [&](int token) { return int(std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin()); };
    adapted_ = step.adapted;
    units_.clear();
    rank_ = 0;
    for (int i = 0; i < step.num_adapted; i++) {
      const Adapted& adapted = step.adapted[i];
      const int end = row_of(adapted.end);
      rank_ = std::max(rank_, int64_t(adapted.rank));
      for (int at = row_of(adapted.first); at < end; at += rows_per_tile)
        units_.push_back({i, at, std::min(end, at + rows_per_tile)});
    }
    if (!units_.empty()) low_.resize(tokens.size() * kParts * rank_);
  }

  int shrink_tiles() const { return int(units_.size()) * kParts; }
  int expand_tiles() const { return shrink_tiles() * kShares; }

  // x: the product's input as float, row by row.
  void shrink(int layer, int product, const float* x, int64_t stride, int tile) {
    const Unit& unit = units_[tile / kParts];
    const LowRank& part = at(unit, layer, product, tile % kParts);
    const Input input{const_cast<float*>(x), nullptr, nullptr, nullptr, nullptr, stride, 0};
    const Output low{low_.data() + tile % kParts * rank_, kParts * rank_, false};
    for (int panel = 0; panel < panels(part.down); panel++)
      forebay::product(part.down, input, low, panel, unit.first, unit.end);
  }

  // Adds to the product's output, after the product and `shrink`.
  void expand(int layer, int product, const Output& output, int tile) {
    const int which = tile / kShares % kParts, share = tile % kShares;
    const Unit& unit = units_[tile / kShares / kParts];
    const LowRank& part = at(unit, layer, product, which);
    const Input low{low_.data() + which * rank_, nullptr, nullptr, nullptr, nullptr, kParts * rank_, 0};
    const Output sum{output.data + part.first, output.stride, true};
    const int count = panels(part.up);
    for (int panel = count * share / kShares; panel < count * (share + 1) / kShares; panel++)
      forebay::product(part.up, low, sum, panel, unit.first, unit.end);
  }

 private:
  static constexpr int kShares = 4;  // tiles that one row's additions are split into: few rows would not keep all threads

  struct Unit {
    int adapted, first, end;  // rows
  };

  const LowRank& at(const Unit& unit, int layer, int product, int part) const {
    return adapted_[unit.adapted].parts[(layer * kProducts + product) * kParts + part];
  }

  const Adapted* adapted_ = nullptr;
  int64_t rank_ = 0;
  std::vector<Unit> units_;
  std::vector<float> low_;  // (rows, parts, rank)
};

}  // namespace forebay
