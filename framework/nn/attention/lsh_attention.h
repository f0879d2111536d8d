// Attention of tokens that a locality-sensitive hash maps to the same bucket (Reformer, Kitaev et
// al. 2020). Time and memory are linear in the length.
#pragma once

#include <optional>
#include <string>

#include "framework/autograd/attention.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct LshOptions {
  std::int64_t chunk = 64;
  std::optional<std::int64_t> buckets = {};  // none: twice the number of chunks
  std::int64_t rounds = 2;
  std::optional<std::int64_t> evaluation_rounds = {};  // none: as in training
  std::int64_t look_ahead = 0;
  bool same_bucket = false;
  bool count_once = true;
  std::optional<double> scale = {};       // none: 1 / sqrt(dim)
  std::optional<double> self_score = {};  // none: -1e5 in float64, else -1e3
};

// Declares the keys model.attention.lsh.*.
void declare(OptionTable& table, LshOptions& options);

// Returns the buckets for a sequence of `time` tokens: options.buckets, or about 2 time / chunk, as
// a product of two even factors of similar size.
BucketCount bucket_count(const LshOptions& options, std::int64_t time);

// Returns the rotations of a hash, [heads, dim, rounds, columns] in `dtype`: standard normal
// numbers. They depend on `random`, the global head and the round, not on the sharding of heads.
// The rows of a batch share them.
Tensor hash_rotations(const Random& random,
                      const ShardRange& heads,
                      std::int64_t dim,
                      std::int64_t rounds,
                      std::int64_t columns,
                      DType dtype,
                      const Device& device);

// Returns the reason why the compute dtype does not support the self score, which must not be too
// low for it. Otherwise empty.
std::string validate_self_score(const LshOptions& options, DType compute);

// Ties query and key. A sequence shorter than two chunks uses full attention. Buckets are redrawn
// each step and cached with ForwardContext::decide. They depend on all tokens: causal attention
// never reads a later token's value, but chunk boundaries depend on later tokens. These determine
// which earlier tokens a query attends to. All implementations of the method have this property.
class LshAttention : public AttentionOp {
 public:
  struct Options {
    LshOptions lsh;
    std::int64_t heads = 0;  // total heads of the model
    double dropout = 0;      // on the probabilities
  };
  // Throws ConfigurationError with the message of validate_head_sharding or validate_self_score.
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
