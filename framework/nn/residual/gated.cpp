#include "framework/nn/residual/gated.h"

#include "framework/nn/residual/layer_runner.h"

namespace longspan {
namespace {

struct GatedStep {
  GatedResidual::Options options;

  Stream operator()(const Sublayer& sublayer,
                    const Sublayer* /*next*/,
                    Stream x,
                    SublayerInputs reads,
                    const ForwardContext& pass) const {
    require(sublayer.gate != nullptr,
            "{}: a gated residual requires a gate for each sublayer",
            sublayer.name);
    if (options.normed_memory && reads.memory.defined()) reads.memory = sublayer.norm(reads.memory);
    const Variable normed = sublayer.norm(x.value, pass, reads.context.mask.key_length);
    Variable change = run_sublayer(sublayer, normed, reads, pass);
    reads = {};  // frees memory before more is allocated
    if (options.relu) change = activate(Activation::relu, change);
    change = drop(change, options.dropout, pass.child("residual"));
    return {(*sublayer.gate)(x.value, change)};
  }
};

}  // namespace

Variable GatedResidual::run_layers(std::span<const Layer> layers,
                                   const Variable& x,
                                   const StackInputs& reads,
                                   const ForwardContext& pass,
                                   const LayerRecorder& watch) const {
  return run_layer_stack({.step = GatedStep{options_},
                          .prepared = [this](const auto&... of) { return prepared(of...); },
                          .again = options_.again},
                         layers,
                         x,
                         reads,
                         pass,
                         watch);
}

Variable GatedResidual::prepared(const Sublayer& sublayer,
                                 const Variable& x,
                                 const AttentionContext& context,
                                 const ForwardContext& pass) const {
  return sublayer.norm.second_read(x, pass, context.mask.key_length);
}

}  // namespace longspan
