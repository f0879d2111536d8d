// Low-rank adapters (Hu et al. 2021) of a run as the package PEFT has them.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/checkpoint.h"
#include "framework/interop/architecture.h"

namespace longspan {

// What the run with this configuration multiplies B A x with.
double adapter_factor(const ModelValues& values);

// Writes adapter_model.safetensors and adapter_config.json with the adapters of a checkpoint alone.
// What is one matrix there and several layers here has one adapter of the sum of their ranks.
// `base`: what the latter names as the model that they are to be added to; empty: nothing. Throws
// ConfigurationError where the run has no adapters or has trained other weights beside them, and as
// SafetensorsWriter.
void export_adapters(const Checkpoint& checkpoint,
                     const Architecture& architecture,
                     const ModelValues& values,
                     const std::string& base,
                     const std::filesystem::path& folder,
                     DType dtype);

}  // namespace longspan
