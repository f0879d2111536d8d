#include "launch/cli/generate_images.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cmath>
#include <optional>

#include "framework/data/atomic_file.h"
#include "framework/data/examples/image_grid.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {

void add_images(CLI::App& app, ImageArguments& arguments) {
  auto* sheet =
      app.add_option("--images",
                     arguments.sheet,
                     "with run.task: image_generation, a PNG file for a sheet of --samples images "
                     "that the model makes")
          ->check(not_empty_text());
  app.add_option("--class",
                 arguments.labels,
                 "the class of the images, where the model knows classes; given several times, the "
                 "images have these in turn, and without it all")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_empty_text())
      ->needs(sheet);
  app.add_option("--complete",
                 arguments.complete,
                 "a PNG file, or an IDX file of images: of the first --samples the lower half is "
                 "made anew, and the sheet shows each image and what was made of it")
      ->check(not_empty_text())
      ->needs(sheet);
}

void check_images(const ImageArguments& arguments, const RunConfig& settings) {
  const bool makes_images = static_cast<bool>(settings.task_kind().generate_images);
  if (makes_images && arguments.sheet.empty())
    throw ConfigurationError(
        "longspan generate: a model of run.task: {} makes images; say where to by --images "
        "FILE.png",
        settings.task);
  if (!makes_images && !arguments.sheet.empty())
    throw ConfigurationError(
        "longspan generate: --images is for models of run.task: image_generation; this one is of "
        "{}",
        settings.task);
}

ExitCode generate_images(const ImageArguments& arguments,
                         const GenerationOptions& options,
                         const LoadedRun& run,
                         Session& session) {
  // Opened before: a folder that is not there is not to be found after hours.
  std::optional<AtomicFile> file;
  if (session.world().rank() == 0) file.emplace(arguments.sheet);
  const std::vector<PngImage> images =
      run.configuration->task_kind().generate_images({.model = *run.model,
                                                      .labels = run.labels,
                                                      .image = run.image.value_or(ImageShape()),
                                                      .samples = options.samples,
                                                      .classes = arguments.labels,
                                                      .complete = arguments.complete,
                                                      .sampling = options.sampling,
                                                      .seed = options.seed});
  if (!file) return ExitCode::ok;
  const auto square =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  // An image and what was made of it stand side by side.
  const std::int64_t columns = arguments.complete.empty() ? square : square + square % 2;
  file->write(png_of(make_image_grid(images, columns)));
  file->finish();
  return ExitCode::ok;
}

}  // namespace longspan
