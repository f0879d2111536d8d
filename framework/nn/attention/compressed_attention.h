// Attention over keys and values that a strided convolution compresses (memory-compressed
// attention, Liu et al. 2018).
#pragma once

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct CompressedOptions {
  std::int64_t width = 3;
};

// Declares the key model.attention.compression_factor.
void declare(OptionTable& table, CompressedOptions& options);

// Compresses each `width` tokens to one key and one value per head: a convolution with stride
// `width` and no bias. Without causality every query attends to all compressed keys. A causal query
// attends to those whose tokens all precede or equal it. The same softmax also includes the
// uncompressed tokens of its own group, up to itself. Keys and values of padding are zeroed first,
// and a compressed key of padding alone is masked.
class CompressedAttention : public AttentionOp {
 public:
  struct Options {
    CompressedOptions compressed;
    std::int64_t heads = 0;  // total heads of the model
    std::int64_t dim = 0;    // per head
    double dropout = 0;      // on the probabilities
  };
  // Parameters: "compressed_keys" and "compressed_values" [heads, width dim, dim]. Throws
  // ConfigurationError if context and tensor ranks do not divide the heads.
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
