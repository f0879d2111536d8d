// Weights of a checkpoint, and adapters among them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"

namespace longspan {

// Suffixes of the names of a layer's adapter matrices A and B.
inline constexpr const char* adapter_down = "/adapter/down";
inline constexpr const char* adapter_up = "/adapter/up";

// Returns the weights of a checkpoint, without optimizer state, recurrent state and data positions.
std::vector<CheckpointTensor> weights_of(const Checkpoint& checkpoint);

// Returns whether a weight is part of an adapter.
bool is_of_adapter(std::string_view weight);

// Returns the layer of a weight W that has an adapter in the checkpoint: "layers/0/attention/query"
// for "layers/0/attention/query/weight".
std::optional<std::string> adapted_layer(const Checkpoint& checkpoint, const std::string& weight);

// Reads a full tensor of a checkpoint to the host, in its saved dtype.
Tensor read_full(const Checkpoint& checkpoint, const std::string& name);

// Reads a full weight; with an adapter, W + factor B A, summed in the saved dtype.
Tensor read_merged(const Checkpoint& checkpoint, const std::string& weight, double factor);

}  // namespace longspan
