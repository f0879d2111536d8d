// Attention over keys and values that a strided convolution makes fewer (memory-compressed
// attention, Liu et al. 2018).
#pragma once

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct CompressedOptions {
  std::int64_t width = 3;
};

// The key model.attention.compression_factor.
void declare(OptionTable& table, CompressedOptions& options);

// Of each `width` tokens one key and one value of a head, a linear map of what they have of it: a
// convolution whose stride is its width, without bias. Every query sees all of these. A causal one
// sees those whose tokens are not later than itself, and the tokens of its own `width` up to itself
// as they are, in one softmax. Keys and values of padding are zero before, and a key of nothing but
// padding is not seen.
class CompressedAttention : public AttentionOp {
 public:
  struct Options {
    CompressedOptions compressed;
    std::int64_t heads = 0;  // of the model
    std::int64_t dim = 0;    // of a head
    double dropout = 0;      // of the probabilities
  };
  // Parameters "compressed_keys" and "compressed_values" [heads, width dim, dim]. Throws
  // ConfigurationError where context and tensor ranks do not divide the heads.
  CompressedAttention(const Scope& scope, const Options& options);
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  Variable compress(const Variable& x, const Weight& weight, const ShardRange& heads) const;

  std::int64_t width_;
  double dropout_;
  ShardRange heads_;
  Weight keys_;
  Weight values_;
};

AttentionKind compressed_kind();

}  // namespace longspan
