// Configurations as the tables of architectures know them (framework/interop/architecture.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/examples/image_shape.h"
#include "framework/interop/architecture.h"
#include "launch/cli/configuration.h"

namespace longspan {

// How long ranks that have nothing to do wait for the one that reads and writes.
inline constexpr std::chrono::duration<double> patience{1e6};

// Every key with its value.
ModelValues model_values(const Configuration& configuration);

// The same with image.height, image.width and image.channels, where there are images.
ModelValues with_image(const ModelValues& values, const std::optional<ImageShape>& image);

// The configuration that says these keys, their values as YAML has them, and no others. `run`:
// its directory, which also names it in messages. Throws ConfigurationError.
std::unique_ptr<Configuration> configure_settings(
    const std::vector<std::pair<std::string, std::string>>& settings, const std::string& run);

}  // namespace longspan
