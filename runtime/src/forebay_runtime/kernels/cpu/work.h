// The rows that stages work on, and how attention and adapters share them out among threads.
#pragma once
#include <algorithm>
#include <vector>

#include "attention.h"
#include "low_rank.h"

namespace forebay {

constexpr int kTokensPerAttention = 16;  // queries of one sequence that one tile of attention takes

struct Query {
  int sequence, first, end;  // rows
};

// All tokens of a step, or some of them: row r is tokens[r].
struct Work {
  std::vector<int32_t> tokens, positions;
  std::vector<Query> queries;
  int splits = 1;  // of each query's keys that are tiles of their own, where there would be few tiles
  std::vector<Partial> partials;  // (rows, heads, splits), where there are several
  LowRanks low_ranks;

  int rows() const { return int(tokens.size()); }

  // The tokens are ascending.
  void plan(const Step& step, const Model& model, int threads, int rows_per_product) {
    positions.resize(tokens.size());
    queries.clear();
    int longest = 1;
    for (int i = 0, row = 0; i < step.num_sequences; i++) {
      const int first = row;
      for (; row < rows() && tokens[row] < step.starts[i + 1]; row++) {
        positions[row] = step.firsts[i] + tokens[row] - step.starts[i];
        longest = std::max(longest, positions[row] + 1);
      }
      for (int r = first; r < row; r += kTokensPerAttention)
        queries.push_back({i, r, std::min(r + kTokensPerAttention, row)});
    }
    // the longest first, so that none is left for the end
    std::stable_sort(queries.begin(), queries.end(),
                     [&](const Query& a, const Query& b) { return positions[a.end - 1] > positions[b.end - 1]; });
    const bool few = int(queries.size()) * model.kv_heads < 8 * threads && rows() <= 16;
    splits = few ? (longest + kSplit - 1) / kSplit : 1;
    if (splits > 1) partials.resize(size_t(rows()) * model.heads * splits);
    low_ranks.plan(step, tokens, rows_per_product);
  }
};

}  // namespace forebay
