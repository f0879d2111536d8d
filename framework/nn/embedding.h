// Token embeddings and the output layer that may share their table, both split over the vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/nn/layers.h"

namespace longspan {

// Parameter "weight" [vocabulary, width], rows split over tensor ranks as evenly as they go.
class TokenEmbedding {
 public:
  TokenEmbedding(const Scope& scope,
                 std::int64_t vocabulary,
                 std::int64_t width,
                 const Initializer& initial);
  // scale * rows of `tokens` [batch, time] i64: [batch, time, width] of the positions that `time`
  // gives this rank.
  Variable operator()(const Tensor& tokens, double scale, const SequenceShard& time = {}) const;
  const Weight& table() const { return table_; }
  // scale * weights table, of weights [n, this rank's rows] in the dtype of computing: [n, width],
  // the sum over the tensor ranks. Nothing is recorded.
  Tensor soft_embedding(const Tensor& weights, double scale) const;

 private:
  TensorParallelRegion region_;
  Weight table_;
};

// What share of a target's weight is spread over the classes, and over which (Szegedy et al. 2016).
struct LabelSmoothing {
  double share = 0;  // at least 0, less than 1
  LabelSmoothingStyle kind = LabelSmoothingStyle::all_classes;
};

// The logits of this rank's part of the vocabulary: x table^T + bias. Parameter "bias" [vocabulary]
// where asked for, and "weight" unless the table of the embedding is given.
class LMHead {
 public:
  struct Options {
    std::int64_t vocabulary = 0;
    std::int64_t width = 0;
    bool bias = true;
    double scale = 1;                // of the products, before the bias is added
    std::optional<double> cap = {};  // of the logits, which become cap tanh(logit / cap)
    Initializer initial = {};
    // Pieces of the rows whose logits and losses are computed one after another, and again in the
    // backward pass.
    std::int64_t chunks = 1;
  };
  LMHead(const Scope& scope, const Options& options, const Weight& tied_table = nullptr);

  // x: [batch, time, width] of the positions that `time` gives this rank. Result: [batch, time,
  // part().count] of those of all tensor ranks. With `only_last` of their last row alone, without a
  // gradient for x: [batch, 1, part().count].
  Variable logits(const Variable& x, const SequenceShard& time = {}, bool only_last = false) const;
  // The loss of each token, [batch * time]; 0 where the target is negative. targets: [batch, time]
  // of the positions of all tensor ranks. Smoothed losses are for training: a perplexity is of
  // those that are not.
  Variable losses(const Variable& x,
                  const Tensor& targets,
                  const SequenceShard& time = {},
                  const LabelSmoothing& smoothing = {}) const;
  const ShardRange& part() const { return part_; }

 private:
  // x has entered the region. With a column for each row of the padding.
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
