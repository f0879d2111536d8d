// `longspan generate` for image models.
#pragma once

#include <string>
#include <vector>

#include "framework/decoding/generation.h"
#include "launch/cli/loaded_run.h"

namespace longspan {

struct ImageArguments {
  std::string sheet;                // a PNG file
  std::vector<std::string> labels;  // class names, assigned to the images round-robin
  std::string complete;             // an image file
};
// Adds --image-sheet, --class and --inpaint. `arguments` must outlive the action.
void add_images(CLI::App& app, ImageArguments& arguments);

// Checks the image options against the task. Throws ConfigurationError.
void check_images(const ImageArguments& arguments, const RunConfig& settings);

// Generates or completes as many images as `options` requests, and writes them as a sheet.
// Collective. Throws DataError, ConfigurationError, and Failure if the sheet cannot be written.
ExitCode generate_images(const ImageArguments& arguments,
                         const GenerationOptions& options,
                         const LoadedRun& run,
                         Session& session);

}  // namespace longspan
