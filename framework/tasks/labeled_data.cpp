#include "framework/tasks/labeled_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "framework/data/examples/image_examples.h"

namespace longspan {
namespace {

ImageFiles image_files(const ConfigPath& images, const ConfigPath& labels, Unlabeled unlabeled) {
  std::error_code unused;
  if (unlabeled == Unlabeled::refused && labels.empty() &&
      std::filesystem::is_regular_file(images.text(), unused))
    throw DataError(
        "{}: a file of images requires a file of labels; set data.train_target (or "
        "--data-target), or give a directory with a directory of PNG files per class",
        images.describe());
  return {images, labels};
}

// The model's positions must cover the images.
void require_short(const Examples& images, const BucketOptions& buckets) {
  const ImageShape shape = images.image().value_or(ImageShape());
  if (buckets.longest > 0 && shape.values() > buckets.longest)
    throw DataError(
        "{}: data.max_length: expected at least {} (images of {} cannot be truncated), found {}",
        images.path(),
        shape.values(),
        to_string(shape),
        buckets.longest);
}

}  // namespace

std::string validate_labeled_images(const DataOptions& data) {
  if (data.tokenizer != TokenizerKind::bytes)
    return "data.tokenizer.type cannot be combined with data.format: images; omit it";
  for (const auto& [images, labels, name] :
       {std::tuple(&data.validation, &data.validation_target, "validation"),
        std::tuple(&data.test, &data.test_target, "test")})
    if (images->empty() && !labels->empty())
      return fmt::format("data.{0}_target requires data.{0}", name);
  return "";
}

LabelSet learn_labels_of_images(const DataOptions& data,
                                Unlabeled unlabeled,
                                const Communicator& all,
                                const ProgressCallback& listener) {
  return learn_image_labels(image_files(data.train, data.train_target, unlabeled), all, listener);
}

std::shared_ptr<const Examples> open_labeled_images(const LabeledFile& file, Unlabeled unlabeled) {
  auto images =
      open_images(image_files(file.path, file.target, unlabeled),
                  file.labels,
                  file.all,
                  file.listener,
                  unlabeled == Unlabeled::taken ? UnknownLabels::taken : UnknownLabels::refused);
  require_short(*images, file.data.buckets);
  return images;
}

std::vector<LabeledLine> images_of_line(const PredictRequest& request, std::size_t line) {
  const std::string& path = request.lines[line];
  if (path.empty()) return {{}};
  std::vector<LabeledLine> result;
  try {
    for (Pixels& image : read_images(path, request.model.parameters().mesh().world)) {
      if (request.image && image.shape != *request.image)
        throw DataError("{}: expected images of {}, found {}",
                        path,
                        to_string(*request.image),
                        to_string(image.shape));
      result.push_back({.tokens = std::move(image.values)});
    }
  } catch (const DataError& error) {
    throw DataError("{}: {}", request.place(line), error.what());
  }
  return result;
}

std::string validate_labeled_text(const LabeledTaskSpec& kind, const DataOptions& data) {
  for (const auto& [path, name] : {std::pair(&data.train_target, "train"),
                                   std::pair(&data.validation_target, "validation"),
                                   std::pair(&data.test_target, "test")})
    if (!path->empty())
      return fmt::format(
          "data.{}_target requires run.task: translation, found {}", name, kind.task);
  if (data.tokenizer == TokenizerKind::characters)
    return fmt::format(
        "data.tokenizer.type: run.task: {1} does not support char, whose vocabulary would include "
        "the {0} of data.train; set it to byte, or to sentencepiece with data.tokenizer.model",
        kind.labels,
        kind.task);
  if (trains_tokenizer(data))
    return fmt::format(
        "data.tokenizer.type: {} requires data.tokenizer.model, since data.train "
        "also contains {}; run longspan tokenizer train TEXT --output FILE.{} on "
        "the text alone, or set data.tokenizer.type to byte",
        name_of(data.tokenizer),
        kind.labels,
        data.tokenizer == TokenizerKind::sentencepiece ? "model" : "json");
  return "";
}

}  // namespace longspan
