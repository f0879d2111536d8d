// Attention of tokens that a locality-sensitive hash puts together (Reformer, Kitaev et al. 2020):
// time and memory linear in the length.
#pragma once

#include <optional>
#include <string>

#include "framework/autograd/hash_attention.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct LshOptions {
  std::int64_t chunk = 64;
  std::optional<std::int64_t> buckets = {};  // none: twice as many as there are chunks
  std::int64_t rounds = 2;
  std::optional<std::int64_t> evaluation_rounds = {};  // none: as in training
  std::int64_t look_ahead = 0;
  bool same_bucket = false;
  bool count_once = true;
  std::optional<double> scale = {};       // none: 1 / sqrt(dim)
  std::optional<double> self_score = {};  // none: -1e5 in float64, else -1e3
};

// The keys model.attention.lsh.*.
void declare(OptionTable& table, LshOptions& options);

// The buckets of a sequence of `time` tokens: as asked for, or about 2 time / chunk in two even
// factors of nearly one size.
BucketCount bucket_count(const LshOptions& options, std::int64_t time);

// The rotations of a hash, [heads, dim, rounds, columns] in `dtype`: standard normal numbers that
// depend on `random`, the global head and the round, and not on how heads are divided. The rows of
// a batch share them.
Tensor hash_rotations(const Random& random,
                      const ShardRange& heads,
                      std::int64_t dim,
                      std::int64_t rounds,
                      std::int64_t columns,
                      DType dtype,
                      const Device& device);

// What forbids the attention below, as a sentence; empty where nothing does: how low the score of a
// token with itself may be depends on the dtype of computing.
std::string self_score_problem(const LshOptions& options, DType compute);

// Queries and keys are one projection; a sequence of less than two chunks is attended whole.
// Buckets are a decision of the pass (Pass::decide), drawn anew each step. They depend on all
// tokens: causal attention never reads a later token's value, but where chunks end, and so which
// earlier tokens are seen, depends on later tokens too. This is so in all implementations of the
// method.
class LshAttention : public AttentionOp {
 public:
  struct Options {
    LshOptions lsh;
    std::int64_t heads = 0;  // of the model
    double dropout = 0;      // of the probabilities
  };
  // Throws ConfigurationError with whole_heads_problem or self_score_problem.
  LshAttention(const Scope& scope, const Options& options);
  bool ties_query_and_key() const override { return true; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  Tensor buckets(const ProjectedQKV& input,
                 const AttentionContext& context,
                 const ForwardContext& pass,
                 const BucketCount& count,
                 std::int64_t rounds) const;

  LshOptions options_;
  double dropout_;
};

AttentionKind lsh_kind();

}  // namespace longspan
