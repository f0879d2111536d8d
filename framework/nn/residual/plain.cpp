#include "framework/nn/residual/residual.h"

namespace longspan {

Variable PlainResidual::run(const Sublayer& sublayer,
                            const Variable& x,
                            const Variable& memory,
                            const SegmentContext& context,
                            const Pass& pass) const {
  const bool pre = placement_ == NormPlacement::pre;
  const Variable before = pre && memory.defined() ? sublayer.norm(memory) : memory;
  const Variable change = sublayer.run(pre ? sublayer.norm(x) : x, before, context, pass);
  const Variable sum = add(x, drop(change, dropout_, pass.child("residual")));
  return pre ? sum : sublayer.norm(sum);
}

Variable PlainResidual::run(std::span<const Layer> layers,
                            const Variable& x,
                            std::span<const Variable> memories,
                            const SegmentContext& context,
                            const Pass& pass,
                            const LayerInputs& inputs) const {
  require(memories.empty() || memories.size() == layers.size(),
          "{} layers were given {} memories",
          layers.size(),
          memories.size());
  Variable stream = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (inputs) inputs(i, stream.value());
    const Pass layer_pass = pass.child(i);
    const auto& sublayers = layers[i].sublayers;
    for (std::size_t j = 0; j < sublayers.size(); ++j) {
      const bool remembers = sublayers[j].reads_memory && !memories.empty();
      stream = run(
          sublayers[j], stream, remembers ? memories[i] : Variable(), context, layer_pass.child(j));
    }
  }
  return stream;
}

}  // namespace longspan
