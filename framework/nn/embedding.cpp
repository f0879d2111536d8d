#include "framework/nn/embedding.h"

#include "framework/autograd/ops.h"
#include "framework/autograd/recompute.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// Returns the last row of x [batch, time, width] as a constant [batch, 1, width].
Variable last_row(const Variable& x) {
  const Tensor& rows = x.value();
  const Tensor row =
      Tensor::empty(rows.shape().with(1, 1), rows.dtype(), rows.device(), MemoryTag::activations);
  on(rows.device(),
     [&](auto backend) { copy_rows(backend, rows, rows.shape()[1] - 1, row, 0, 1, false); });
  return Variable(row);
}

}  // namespace

TokenEmbedding::TokenEmbedding(const Scope& scope,
                               std::int64_t vocabulary,
                               std::int64_t width,
                               const Initializer& initial)
    : region_(scope.parameters().mesh().tensor),
      table_(scope.classes(vocabulary, width, initial)) {}

Variable TokenEmbedding::operator()(const Tensor& tokens,
                                    double scale,
                                    const SequenceShard& time) const {
  const Span span({.kind = ActivityKind::layer, .layer = layer_of(table_)});
  const ShardRange& rows = table_->part;
  return region_.leave(embedding(table_->variable, tokens, rows.begin, scale, rows.count), time);
}

Tensor TokenEmbedding::soft_embedding(const Tensor& weights, double factor) const {
  const NoGradGuard unrecorded;
  const Tensor rows = table_->variable.value().slice(0, table_->part.count);
  const Tensor y = Tensor::zeros({weights.shape()[0], rows.shape().width()},
                                 rows.dtype(),
                                 rows.device(),
                                 MemoryTag::workspace);
  if (weights.elements() > 0) {
    dispatch_or_meta(y.device(),
                     [&](auto backend) { matmul(backend, {.a = weights, .b = rows, .c = y}); });
    on(y.device(), [&](auto backend) { scale(backend, factor, y, y); });
  }
  return region_.leave(Variable(y), {}).value();
}

LMHead::LMHead(const Scope& scope, const Options& options, const Weight& tied_table)
    : name_(scope.path()),
      tensor_(scope.parameters().mesh().tensor),
      region_(tensor_),
      part_(scope.part(options.vocabulary)),
      table_(tied_table ? tied_table
                        : scope.classes(options.vocabulary, options.width, options.initial)),
      scale_(options.scale),
      cap_(options.cap),
      chunks_(options.chunks) {
  if (options.bias) bias_ = scope.class_bias(options.vocabulary);
}

Variable LMHead::product(const Variable& x) const {
  Variable logits = linear(scale_ == 1 ? x : multiply_scalar(x, scale_),
                           table_->variable,
                           bias_ ? bias_->variable : Variable());
  return cap_ ? soft_cap(logits, *cap_) : std::move(logits);
}

Variable LMHead::losses_inside(const Variable& x,
                               const Tensor& targets,
                               const LabelSmoothing& smoothing) const {
  return cross_entropy(product(x),
                       targets,
                       {.vocabulary = part_.total,
                        .vocabulary_begin = part_.begin,
                        .classes = part_.count,
                        .smoothing = smoothing.share,
                        .kind = smoothing.kind},
                       tensor_);
}

Variable LMHead::logits(const Variable& x, const SequenceShard& time, bool only_last) const {
  const Span span({.kind = ActivityKind::layer, .layer = name_});
  const Variable inside = region_.enter(x, time);
  return first_features(product(only_last ? last_row(inside) : inside), part_.count);
}

Variable LMHead::losses(const Variable& x,
                        const Tensor& targets,
                        const SequenceShard& time,
                        const LabelSmoothing& smoothing) const {
  const Span span({.kind = ActivityKind::layer, .layer = name_});
  const Variable inside = region_.enter(x, time);
  if (chunks_ == 1) return losses_inside(inside, targets, smoothing);
  const Tensor all = targets.reshape({targets.elements()});
  const Variable losses = recompute_chunked(
      [layer = *this, all, smoothing](const Variable& rows, const RowChunk& piece) {
        return layer.losses_inside(
            rows, all.slice(piece.begin, piece.begin + piece.rows()), smoothing);
      },
      inside,
      chunks_);
  return reshape(losses, {all.elements()});
}

}  // namespace longspan
