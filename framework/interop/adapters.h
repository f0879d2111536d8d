// Weights of a checkpoint, and export of low-rank adapters among them (LoRA, Hu et al. 2021) to
// PEFT.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/interop/architecture.h"

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

// Returns the scaling factor of B A x in the run with this configuration.
double adapter_factor(const ModelValues& values);

// Writes adapter_model.safetensors and adapter_config.json with only the adapters of a checkpoint.
// Layers that are fused into one matrix there get one adapter, whose rank is the sum of their
// ranks. `base`: name of the base model in adapter_config.json; empty: none. Throws
// ConfigurationError where the run has no adapters or has trained other weights too. Throws also as
// SafetensorsWriter.
void export_adapters(const Checkpoint& checkpoint,
                     const Architecture& architecture,
                     const ModelValues& values,
                     const std::string& base,
                     const std::filesystem::path& folder,
                     DType dtype);

}  // namespace longspan
