#include "framework/nn/lora.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/nn/layers.h"

namespace longspan {
namespace {

std::int64_t rank_of(const Scope& scope, std::int64_t out, std::int64_t in) {
  const std::int64_t rank = *scope.parameters().tuning().adapters.rank;
  if (rank > std::min(out, in))
    throw ConfigurationError(
        "training.lora.rank: expected at most {} for linear layer {} with "
        "weight [{}, {}], found {}",
        std::min(out, in),
        scope.path(),
        out,
        in,
        rank);
  return rank;
}

}  // namespace

LoraAdapter::LoraAdapter(const Scope& scope, std::int64_t out, std::int64_t in, int split_axis)
    : factor_(scope.parameters().tuning().adapters.factor()),
      dropout_(scope.parameters().tuning().adapters.dropout),
      inside_(split_axis >= 0) {
  const std::int64_t rank = rank_of(scope, out, in);
  const Scope place = scope.child("adapter");
  // As the initialization of torch.nn.Linear, which PEFT uses.
  const Initializer initial = Initializer::uniform(1 / std::sqrt(static_cast<double>(in)));
  down_ = place.adapter("down", {rank, in}, initial, split_axis == 1 ? 1 : -1, inside_);
  up_ =
      place.adapter("up", {out, rank}, Initializer::constant(0), split_axis == 0 ? 0 : -1, inside_);
}

Variable LoraAdapter::narrow(const Variable& x, const ForwardContext* pass) const {
  const Variable product =
      linear(pass != nullptr && dropout_ > 0 ? dropped(x, *pass) : x, down_->variable, {});
  return factor_ == 1 ? product : multiply_scalar(product, factor_);
}

Variable LoraAdapter::dropped(const Variable& x, const ForwardContext& pass) const {
  const ForwardContext own = pass.child(down_->name);
  if (!inside_) return drop(x, dropout_, own);
  const std::int64_t in = down_->global_shape[1];
  return drop(x, dropout_, own, down_->split() ? down_->part : ShardRange{0, in, in});
}

}  // namespace longspan
