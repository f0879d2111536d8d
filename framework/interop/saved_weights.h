// The weights that a checkpoint has, and the adapters among them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"

namespace longspan {

// What the matrices A and B of a layer's adapter are called behind the layer's name.
inline constexpr const char* adapter_down = "/adapter/down";
inline constexpr const char* adapter_up = "/adapter/up";

// The tensors of a checkpoint that are weights: not the optimizer's, memories or places in data.
std::vector<CheckpointTensor> weights_of(const Checkpoint& checkpoint);

// Whether a weight is of the adapter of a layer.
bool is_of_adapter(std::string_view weight);

// The layer that a weight W is of, where it has an adapter in the checkpoint: of
// "layers/0/attention/query/weight" "layers/0/attention/query".
std::optional<std::string> adapted_layer(const Checkpoint& checkpoint, const std::string& weight);

// A tensor of a checkpoint whole, on the host, in the dtype in which it was saved.
Tensor read_whole(const Checkpoint& checkpoint, const std::string& name);

// The same of a weight; with an adapter W + factor B A, summed in that dtype.
Tensor read_merged(const Checkpoint& checkpoint, const std::string& weight, double factor);

}  // namespace longspan
