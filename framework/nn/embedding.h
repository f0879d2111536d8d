// Token embedding and LM head, which may share a table. Both are split over the vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/nn/layers.h"

namespace longspan {

// Parameter "weight" [vocabulary, width]. Rows are split over tensor ranks as evenly as possible.
class TokenEmbedding {
 public:
  TokenEmbedding(const Scope& scope,
                 std::int64_t vocabulary,
                 std::int64_t width,
                 const Initializer& initial);
  // Returns scale * table[tokens], [batch, time, width], for this rank's positions in `time`.
  // tokens: [batch, time] i64.
  Variable operator()(const Tensor& tokens, double scale, const SequenceShard& time = {}) const;
  const Weight& table() const { return table_; }
  // Returns scale * weights * table, [n, width], summed over the tensor ranks. weights: [n, rows of
  // this rank] in the compute dtype. Records no gradient.
  Tensor soft_embedding(const Tensor& weights, double scale) const;

 private:
  TensorParallelRegion region_;
  Weight table_;
};

// Label smoothing (Szegedy et al. 2016): the probability mass taken from the target, and the
// classes that receive it.
struct LabelSmoothing {
  double share = 0;  // 0 <= share < 1
  LabelSmoothingStyle kind = LabelSmoothingStyle::all_classes;
};

// Computes x table^T + bias, the logits of this rank's vocabulary shard. Parameters: "bias"
// [vocabulary] if enabled, and "weight" unless tied to the embedding table.
class LMHead {
 public:
  struct Options {
    std::int64_t vocabulary = 0;
    std::int64_t width = 0;
    bool bias = true;
    double scale = 1;                // multiplies the products, before the bias is added
    std::optional<double> cap = {};  // soft cap: logits become cap tanh(logit / cap)
    Initializer initial = {};
    // Number of row chunks whose logits and losses are computed one after another, and recomputed
    // in the backward pass.
    std::int64_t chunks = 1;
  };
  LMHead(const Scope& scope, const Options& options, const Weight& tied_table = nullptr);

  // x: [batch, time, width] of this rank's positions in `time`. Returns [batch, time, part().count]
  // for the positions of all tensor ranks. With `only_last`, returns [batch, 1, part().count] for
  // the last row, without a gradient for x.
  Variable logits(const Variable& x, const SequenceShard& time = {}, bool only_last = false) const;
  // Returns the loss of each token, [batch * time], and 0 where the target is negative. targets:
  // [batch, time] for the positions of all tensor ranks. Smoothed losses are for training only:
  // perplexity uses losses without smoothing.
  Variable losses(const Variable& x,
                  const Tensor& targets,
                  const SequenceShard& time = {},
                  const LabelSmoothing& smoothing = {}) const;
  const ShardRange& part() const { return part_; }

 private:
  // x: inside the region. The result has one column for each padding row of the table.
  Variable product(const Variable& x) const;
  Variable losses_inside(const Variable& x,
                         const Tensor& targets,
                         const LabelSmoothing& smoothing) const;

  std::string name_;
  Communicator tensor_;
  TensorParallelRegion region_;
  ShardRange part_;
  Weight table_;
  Weight bias_;
  double scale_;
  std::optional<double> cap_;
  std::int64_t chunks_;
};

}  // namespace longspan
