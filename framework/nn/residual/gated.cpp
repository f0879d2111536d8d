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

Variable GatedResidual::run(std::span<const Layer> layers,
                            const Variable& x,
                            const StackInputs& reads,
                            const ForwardContext& pass,
                            const LayerRecorder& watch) const {
  return run_layer_stack({.step = GatedStep{options_},
                          .prepared = [](const Sublayer& sublayer,
                                         const Variable& of,
                                         const AttentionContext& context,
                                         const ForwardContext& inner) -> Variable {
                            return sublayer.norm.second_read(of, inner, context.mask.key_length);
                          },
                          .again = options_.again},
                         layers,
                         x,
                         reads,
                         pass,
                         watch);
}

}  // namespace longspan
