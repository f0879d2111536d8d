#include "framework/interop/saved_weights.h"

#include <algorithm>
#include <array>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// Prefixes of checkpoint tensors that are not weights.
constexpr std::array<std::string_view, 3> no_weights = {"optimizer/", "mems/", "data/"};
constexpr std::string_view weight_of = "/weight";

}  // namespace

std::vector<CheckpointTensor> weights_of(const Checkpoint& checkpoint) {
  std::vector<CheckpointTensor> weights;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const auto is_in = [&](std::string_view folder) { return tensor.name.starts_with(folder); };
    if (std::ranges::none_of(no_weights, is_in)) weights.push_back(tensor);
  }
  return weights;
}

bool is_of_adapter(std::string_view weight) {
  return weight.ends_with(adapter_down) || weight.ends_with(adapter_up);
}

std::optional<std::string> adapted_layer(const Checkpoint& checkpoint, const std::string& weight) {
  if (!weight.ends_with(weight_of)) return std::nullopt;
  const std::string layer = weight.substr(0, weight.size() - weight_of.size());
  return checkpoint.has(layer + adapter_down) ? std::optional(layer) : std::nullopt;
}

Tensor read_full(const Checkpoint& checkpoint, const std::string& name) {
  const Shape& shape = checkpoint.shape_of(name);
  StateTensor wanted;
  wanted.name = name;
  wanted.tensor =
      Tensor::empty(shape, checkpoint.dtype_of(name), Device::cpu(), MemoryTag::workspace);
  wanted.global_shape = shape;
  wanted.offset.assign(static_cast<std::size_t>(shape.dimensions()), 0);
  checkpoint.read(wanted);
  return wanted.tensor;
}

Tensor read_merged(const Checkpoint& checkpoint, const std::string& weight, double factor) {
  const Tensor merged = read_full(checkpoint, weight);
  const auto layer = adapted_layer(checkpoint, weight);
  if (!layer) return merged;
  const Tensor up = read_full(checkpoint, *layer + adapter_up);
  const Tensor down = read_full(checkpoint, *layer + adapter_down);
  on(merged.device(), [&](auto backend) {
    scale(backend, factor, up, up);
    matmul(backend, {.a = up, .b = down, .c = merged, .accumulate = true});
  });
  return merged;
}

}  // namespace longspan
