// Configurations as the values that architecture tables use (framework/interop/architecture.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/examples/images.h"
#include "framework/interop/architecture.h"
#include "launch/cli/configuration.h"

namespace longspan {

// How long idle ranks wait for the one that reads and writes.
inline constexpr std::chrono::duration<double> patience{1e6};

// Returns every key with its value.
ModelValues model_values(const Configuration& configuration);

// Returns the values with image.height, image.width and image.channels added if there is an image.
ModelValues with_image(const ModelValues& values, const std::optional<ImageShape>& image);

// Returns the configuration with exactly these keys, their values in YAML. `run`: its directory,
// which also identifies it in messages. Throws ConfigurationError.
std::unique_ptr<Configuration> configure_settings(
    const std::vector<std::pair<std::string, std::string>>& settings, const std::string& run);

}  // namespace longspan
