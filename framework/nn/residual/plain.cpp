#include "framework/nn/residual/layer_runner.h"
#include "framework/nn/residual/residual.h"

namespace longspan {
namespace {

// Runs a sublayer. Fuses its norm with the preceding sum, whose value is then not read again.
struct PlainStep {
  NormPosition placement;
  double dropout;

  Stream operator()(const Sublayer& sublayer,
                    const Sublayer* next,
                    Stream x,
                    SublayerInputs reads,
                    const ForwardContext& pass) const {
    const bool pre = placement == NormPosition::pre;
    if (pre && reads.memory.defined()) reads.memory = sublayer.norm(reads.memory);
    const Tensor length = reads.context.mask.key_length;
    if (!x.norm.defined()) x.norm = pre ? sublayer.norm(x.value, pass, length) : x.value;
    Variable change = run_sublayer(sublayer, x.norm, reads, pass);
    reads = {};  // frees memory before more is allocated
    x.norm = {};
    const ForwardContext residual = pass.child("residual");
    if (!pre)
      return {sublayer.norm.of_sum(x.value, std::move(change), dropout, residual, length).norm};
    if (next == nullptr) return {dropout_add(x.value, change, dropout, residual)};
    ResidualNorm both = next->norm.of_sum(x.value, std::move(change), dropout, residual, length);
    return {std::move(both.sum), std::move(both.norm)};
  }
};

}  // namespace

Variable StandardResidual::run_layers(std::span<const Layer> layers,
                                      const Variable& x,
                                      const StackInputs& reads,
                                      const ForwardContext& pass,
                                      const LayerRecorder& watch) const {
  const PlainStep step = {placement_, dropout_};
  return run_layer_stack({.step = step,
                          .prepared = [this](const auto&... of) { return prepared(of...); },
                          .again = again_},
                         layers,
                         x,
                         reads,
                         pass,
                         watch);
}

Variable StandardResidual::prepared(const Sublayer& sublayer,
                                    const Variable& x,
                                    const AttentionContext& context,
                                    const ForwardContext& pass) const {
  if (placement_ == NormPosition::post) return x;
  return sublayer.norm.second_read(x, pass, context.mask.key_length);
}

}  // namespace longspan
