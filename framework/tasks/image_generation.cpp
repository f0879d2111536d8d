#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numbers>

#include "framework/data/examples/image_examples.h"
#include "framework/decoding/generation.h"
#include "framework/modeling/heads.h"
#include "framework/tasks/labeled_data.h"
#include "framework/tasks/registry.h"

namespace longspan {
namespace {

LabeledTaskSpec pixels_of_images() {
  LabeledTaskSpec kind;
  kind.task = "image_generation";
  kind.documentation = "autoregressive prediction of pixel values, with data.format: images";
  kind.label = "class";
  kind.labels = "classes";
  kind.example = "image";
  kind.unit = "nats per value";
  kind.field = "pixels";
  kind.count = "tokens";
  kind.target = "label";
  kind.goals = {{"bits_per_dim", false}};
  kind.readout = pixel_head();
  kind.problem = [](const DataOptions& data) -> std::string {
    return data.format == DataFormat::images ? validate_labeled_images(data)
                                             : "run.task: image_generation requires data.format: "
                                               "images, found text";
  };
  kind.learn =
      [](const DataOptions& data, const Communicator& all, const ProgressCallback& listener) {
        return LearnedLabels{learn_labels_of_images(data, Unlabeled::taken, all, listener)};
      };
  kind.open = [](const LabeledFile& file) { return open_labeled_images(file, Unlabeled::taken); };
  kind.figures_of_loss = [](double loss) -> std::vector<MetricValue> {
    return {{"bits_per_dim", loss / std::numbers::ln2, "bits per dimension"}};
  };
  return kind;
}

// Returns the classes of `count` images.
std::vector<std::int64_t> labels_of_images(const ImageGenerationRequest& request,
                                           std::int64_t count) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count), -1);
  const bool knows_classes = request.model.body().end().reads_classes;
  if (!request.classes.empty() && !knows_classes)
    throw ConfigurationError("class \"{}\" requires a model with model.class_conditional: true",
                             request.classes.front());
  if (!knows_classes) return labels;
  if (request.classes.empty() && !request.complete.empty())
    throw ConfigurationError(
        "a model with model.class_conditional: true requires the classes of "
        "the images to complete; set --class, once or in their order");
  std::vector<std::int64_t> turns;
  for (const std::string& name : request.classes) {
    turns.push_back(request.labels.id_of(name));
    if (turns.back() < 0)
      throw ConfigurationError(
          "unknown class \"{}\" (choices: {})", name, fmt::join(request.labels.names(), ", "));
  }
  for (std::int64_t i = 0; turns.empty() && i < request.labels.size(); ++i) turns.push_back(i);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = turns[i % turns.size()];
  return labels;
}

// Returns the first images of the file.
std::vector<Pixels> images_to_complete(const ImageGenerationRequest& request) {
  std::vector<Pixels> images =
      read_images(request.complete, request.model.parameters().mesh().world);
  if (std::ssize(images) > request.samples)
    images.resize(static_cast<std::size_t>(request.samples));
  for (const Pixels& image : images)
    if (image.shape != request.image)
      throw DataError("{}: expected images of {}, found {}",
                      request.complete,
                      to_string(request.image),
                      to_string(image.shape));
  return images;
}

PngImage png_image_of(const ImageShape& shape, const std::vector<std::int64_t>& values) {
  PngImage image = {shape, {}};
  for (const std::int64_t value : values) image.values.push_back(static_cast<std::uint8_t>(value));
  return image;
}

// An image to enlarge: its source and, if the file has it, the original.
struct UpscaledImage {
  std::vector<std::int64_t> source;
  std::optional<Pixels> original;
};

std::vector<UpscaledImage> images_to_upscale(const ImageGenerationRequest& request,
                                             const ImageShape& source) {
  std::error_code unused;
  std::vector<std::string> files = {request.upscale.text()};
  if (std::filesystem::is_directory(request.upscale.text(), unused))
    files = images_in(request.upscale);
  std::vector<UpscaledImage> result;
  for (const std::string& file : files) {
    if (std::ssize(result) >= request.samples) break;
    for (Pixels& image : read_images(file, request.model.parameters().mesh().world)) {
      if (std::ssize(result) >= request.samples) break;
      if (image.shape == source) {
        result.push_back({std::move(image.values), std::nullopt});
      } else if (image.shape == request.image) {
        std::vector<std::int64_t> reduced(static_cast<std::size_t>(source.values()));
        average_areas(image.shape, image.values, source, reduced);
        result.push_back({std::move(reduced), std::move(image)});
      } else {
        throw DataError("{}: expected images of {} or {}, found {}",
                        file,
                        to_string(source),
                        to_string(request.image),
                        to_string(image.shape));
      }
      if (result.back().original.has_value() != result.front().original.has_value())
        throw DataError("{}: expected images of one shape", request.upscale.describe());
    }
  }
  return result;
}

// Returns a group for each image: source, sample, and original if there is one.
GeneratedImages upscale_images(const ImageGenerationRequest& request, const ImageShape& source) {
  const std::vector<UpscaledImage> given = images_to_upscale(request, source);
  std::vector<PartialImage> drafts;
  for (const UpscaledImage& image : given)
    drafts.push_back(
        {.values = std::vector<std::int64_t>(static_cast<std::size_t>(request.image.values()), -1),
         .source = image.source});
  sample_images(request.model, drafts, {.sampling = request.sampling, .seed = request.seed});
  GeneratedImages result;
  for (std::size_t i = 0; i < given.size(); ++i) {
    result.images.push_back(enlarge_image(png_image_of(source, given[i].source), request.image));
    result.images.push_back(png_image_of(request.image, drafts[i].values));
    if (given[i].original)
      result.images.push_back(png_image_of(request.image, given[i].original->values));
  }
  result.group_size = !given.empty() && given.front().original ? 3 : 2;
  return result;
}

// Returns the shape of the sources that the model reads, if any. Throws ConfigurationError if the
// request does not match the model.
std::optional<ImageShape> requested_source(const ImageGenerationRequest& request) {
  const std::optional<ImageShape> source = request.model.body().end().source_image;
  if (!source && !request.upscale.empty())
    throw ConfigurationError("enlarging images requires a model with model.source_size");
  if (source && !request.complete.empty())
    throw ConfigurationError("a model with model.source_size does not complete images");
  if (source && request.upscale.empty())
    throw ConfigurationError(
        "a model with model.source_size requires images to enlarge; set --upscale, or "
        "data.validation for metrics.num_images");
  return source;
}

GeneratedImages draw_images(const ImageGenerationRequest& request) {
  const std::optional<ImageShape> source = requested_source(request);
  const bool completes = !request.complete.empty();
  std::vector<Pixels> before;
  if (completes) before = images_to_complete(request);
  const std::int64_t count = completes ? std::ssize(before) : request.samples;
  const std::vector<std::int64_t> labels = labels_of_images(request, count);
  if (source) return upscale_images(request, *source);
  const std::int64_t given =
      request.image.height / 2 * request.image.width * request.image.channels;
  std::vector<PartialImage> drafts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(request.image.values()), -1);
    if (completes) std::copy_n(before[i].values.begin(), given, values.begin());
    drafts.push_back({std::move(values), labels[i]});
  }
  sample_images(request.model, drafts, {.sampling = request.sampling, .seed = request.seed});
  GeneratedImages result = {.images = {}, .group_size = completes ? 2 : 1};
  std::vector<PngImage>& images = result.images;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (completes) images.push_back(png_image_of(request.image, before[i].values));
    images.push_back(png_image_of(request.image, drafts[i].values));
  }
  return result;
}

}  // namespace

TaskSpec image_generation_task() {
  TaskSpec task = labeled_task([](const DataOptions&) { return pixels_of_images(); });
  task.write = {};
  task.generate_images = draw_images;
  return task;
}

}  // namespace longspan
