#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cmath>
#include <optional>

#include "framework/data/atomic_file.h"
#include "framework/data/examples/images.h"
#include "launch/cli/api.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {

void add_images(CLI::App& app, ImageArguments& arguments) {
  auto* sheet =
      app.add_option(
             "--image-sheet",
             arguments.sheet,
             "PNG file to write: a sheet of --num-samples generated images. Only with run.task: "
             "image_generation.")
          ->check(not_empty_text());
  app.add_option("--class",
                 arguments.labels,
                 "class of the images of a class-conditional model; repeatable, the images cycle "
                 "through the classes (default: all classes). Only with --image-sheet.")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_empty_text())
      ->needs(sheet);
  app.add_option(
         "--inpaint",
         arguments.complete,
         "PNG or IDX file of images whose lower half is regenerated; the sheet shows the first "
         "--num-samples images, each next to its result. Only with --image-sheet.")
      ->check(not_empty_text())
      ->needs(sheet);
  app.add_option(
         "--upscale",
         arguments.upscale,
         "PNG or IDX file of images, or a folder of images, that a model with model.source_size "
         "enlarges: small ones, or large ones, which are reduced first. The sheet shows the first "
         "--num-samples images: source, sample, and the large one. Only with --image-sheet.")
      ->check(not_empty_text())
      ->needs(sheet);
}

void check_images(const ImageArguments& arguments, const RunConfig& settings) {
  const bool makes_images = static_cast<bool>(settings.task_kind().generate_images);
  if (makes_images && arguments.sheet.empty())
    throw ConfigurationError("longspan generate: run.task: {} requires --image-sheet FILE.png",
                             settings.task);
  if (!makes_images && !arguments.sheet.empty())
    throw ConfigurationError(
        "longspan generate: --image-sheet requires run.task: image_generation, found {}",
        settings.task);
}

ExitCode generate_images(const ImageArguments& arguments,
                         const GenerationOptions& options,
                         const LoadedRun& run,
                         Session& session) {
  // Opened first, so that a missing folder is reported before hours of work.
  std::optional<AtomicFile> file;
  if (session.world().rank() == 0) file.emplace(arguments.sheet);
  const auto [images, group_size] =
      run.configuration->task_kind().generate_images({.model = *run.model,
                                                      .labels = run.labels,
                                                      .image = run.image.value_or(ImageShape()),
                                                      .samples = options.samples,
                                                      .classes = arguments.labels,
                                                      .complete = arguments.complete,
                                                      .upscale = ConfigPath(arguments.upscale),
                                                      .sampling = options.sampling,
                                                      .seed = options.seed});
  if (!file) return ExitCode::ok;
  const auto square =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  // The images of a group are side by side.
  const std::int64_t columns = (square + group_size - 1) / group_size * group_size;
  file->write(png_of(make_image_grid(images, columns)));
  file->finish();
  return ExitCode::ok;
}

}  // namespace longspan
