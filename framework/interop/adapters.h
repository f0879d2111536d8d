// Export of low-rank adapters (LoRA, Hu et al. 2021) to PEFT.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/checkpoint.h"
#include "framework/interop/architecture.h"

namespace longspan {

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
