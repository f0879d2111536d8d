#include <fmt/format.h>

#include <algorithm>
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

std::vector<PngImage> draw_images(const ImageGenerationRequest& request) {
  const bool completes = !request.complete.empty();
  std::vector<Pixels> before;
  if (completes) before = images_to_complete(request);
  const std::int64_t count = completes ? std::ssize(before) : request.samples;
  const std::vector<std::int64_t> labels = labels_of_images(request, count);
  const std::int64_t given =
      request.image.height / 2 * request.image.width * request.image.channels;
  std::vector<PartialImage> drafts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(request.image.values()), -1);
    if (completes) std::copy_n(before[i].values.begin(), given, values.begin());
    drafts.push_back({std::move(values), labels[i]});
  }
  sample_images(request.model, drafts, {.sampling = request.sampling, .seed = request.seed});
  std::vector<PngImage> images;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (completes) images.push_back(png_image_of(request.image, before[i].values));
    images.push_back(png_image_of(request.image, drafts[i].values));
  }
  return images;
}

}  // namespace

TaskSpec image_generation_task() {
  TaskSpec task = labeled_task([](const DataOptions&) { return pixels_of_images(); });
  task.write = {};
  task.generate_images = draw_images;
  return task;
}

}  // namespace longspan
