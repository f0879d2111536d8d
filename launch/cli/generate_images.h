// `longspan generate` for models of pixels.
#pragma once

#include <string>
#include <vector>

#include "framework/decoding/generation.h"
#include "launch/cli/loaded_run.h"

namespace longspan {

struct ImageArguments {
  std::string sheet;                // a PNG file
  std::vector<std::string> labels;  // names of classes, which the images have in turn
  std::string complete;             // a file of images
};
// --images, --class and --complete. Keep it alive with the action.
void add_images(CLI::App& app, ImageArguments& arguments);

// What the options need, where the configuration's task makes images or makes none. Throws
// ConfigurationError.
void check_images(const ImageArguments& arguments, const RunConfig& settings);

// Collective. Draws as many images as `options` says, or completes as many, and writes them on a
// sheet. Throws DataError, ConfigurationError, and Failure where it cannot be written.
ExitCode generate_images(const ImageArguments& arguments,
                         const GenerationOptions& options,
                         const LoadedRun& run,
                         Session& session);

}  // namespace longspan
