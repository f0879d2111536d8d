#include "framework/nn/embedding.h"

namespace longspan {

TokenEmbedding::TokenEmbedding(const Scope& scope,
                               std::int64_t vocabulary,
                               std::int64_t width,
                               const Initial& initial)
    : region_(scope.parameters().mesh().tensor),
      table_(scope.weight("weight", {vocabulary, width}, initial, 0)) {}

Variable TokenEmbedding::operator()(const Tensor& tokens,
                                    double scale,
                                    const TimeDivision& time) const {
  return region_.leave(embedding(table_->variable, tokens, table_->part.begin, scale), time);
}

OutputLayer::OutputLayer(const Scope& scope, const Options& options, const Weight& tied_table)
    : tensor_(scope.parameters().mesh().tensor),
      region_(tensor_),
      part_(scope.part(options.vocabulary)),
      table_(tied_table ? tied_table
                        : scope.weight(
                              "weight", {options.vocabulary, options.width}, options.initial, 0)) {
  if (options.bias) bias_ = scope.weight("bias", {options.vocabulary}, Initial::constant(0), 0);
}

Variable OutputLayer::logits(const Variable& x, const TimeDivision& time) const {
  return linear(region_.enter(x, time), table_->variable, bias_ ? bias_->variable : Variable());
}

Variable OutputLayer::losses(const Variable& x,
                             const Tensor& targets,
                             const TimeDivision& time) const {
  return cross_entropy(logits(x, time),
                       targets,
                       {.vocabulary = part_.total, .vocabulary_begin = part_.begin},
                       tensor_);
}

}  // namespace longspan
