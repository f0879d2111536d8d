#include "framework/tasks/classification.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "framework/data/image_examples.h"
#include "framework/data/label_examples.h"
#include "framework/metrics/classification.h"
#include "framework/metrics/sums.h"
#include "framework/model/class_readout.h"
#include "framework/tasks/labelled_text.h"

namespace longspan {
namespace {

class ClassScores : public LabelScores {
 public:
  explicit ClassScores(const LabelSet& labels) : names_(labels.names()), found_(labels.size()) {}

  void add(const Batch& batch, const Tensor& choices) override {
    found_.add(choices.span<std::int64_t>(), batch.field("label").span<std::int64_t>());
  }
  std::vector<double> sums() const override {
    std::vector<double> result;
    append_sums(found_, result);
    return result;
  }
  std::vector<Figure> figures(std::span<const double> sums) override {
    take_sums(found_, sums);
    return longspan::figures(found_, names_);
  }

 private:
  std::vector<std::string> names_;
  Classification found_;
};

// What both kinds of data have in common.
LabelledKind classes_of(const std::string& example) {
  LabelledKind kind;
  kind.task = "classification";
  kind.documentation =
      "the class of a text, a class, a tab and the text on every line; or with data.format: images "
      "that of an image";
  kind.label = "class";
  kind.labels = "classes";
  kind.example = example;
  kind.count = "rows";
  kind.target = "label";
  kind.goals = {{"accuracy"}, {"macro_f1"}};
  kind.readout = class_readout();
  kind.scores = [](const LabelSet& labels) { return std::make_unique<ClassScores>(labels); };
  return kind;
}

LabelledKind labelled_texts() {
  LabelledKind kind = classes_of("text");
  kind.unit = "nats a text";
  kind.problem = [texts = kind](const DataOptions& data) {
    return labelled_text_problem(texts, data);
  };
  kind.learn = [](const DataOptions& data, const Communicator& all, const ScanListener& listener) {
    return learn_labels(data.train, all, listener);
  };
  kind.open = [](const LabelledFile& file) {
    return open_labels(file.path, file.labels, file.tokenizer, file.all, file.listener);
  };
  kind.read = [](const WriteRequest& request, std::size_t line) -> std::vector<LabelledLine> {
    return {{.tokens = request.tokenizer.encode(request.lines[line], request.place(line))}};
  };
  return kind;
}

std::string images_problem(const DataOptions& data) {
  if (data.tokenizer != TokenizerKind::bytes)
    return "data.tokenizer is for text, and data.format is images, whose pixels are the tokens; "
           "leave it out";
  for (const auto& [images, labels, name] :
       {std::tuple(&data.validation, &data.validation_target, "validation"),
        std::tuple(&data.test, &data.test_target, "test")})
    if (images->empty() && !labels->empty())
      return fmt::format("data.{0}_target is set without data.{0}, whose labels it has", name);
  return "";
}

ImageFiles image_files(const NamedPath& images, const NamedPath& labels) {
  std::error_code unused;
  if (labels.empty() && std::filesystem::is_regular_file(images, unused))
    throw DataError(
        "{}: is a file, and none with its labels is named (data.train_target and so on, or "
        "--data-target); without one a folder is needed that has a folder of PNG files for each "
        "class",
        images.told());
  return {images, labels};
}

// The positions that the model has must hold them.
void require_short(const Examples& images, const BucketOptions& buckets) {
  const ImageShape shape = images.image().value_or(ImageShape());
  if (buckets.longest > 0 && shape.values() > buckets.longest)
    throw DataError(
        "{}: images of {} have {} tokens each, which are not cut; data.longest is {}: set it to {}",
        images.path(),
        to_string(shape),
        shape.values(),
        buckets.longest,
        shape.values());
}

// The images that a line names.
std::vector<LabelledLine> images_of_line(const WriteRequest& request, std::size_t line) {
  const std::string& path = request.lines[line];
  if (path.empty()) return {{}};
  std::vector<LabelledLine> result;
  try {
    for (Pixels& image : read_images(path, request.model.parameters().mesh().world)) {
      if (request.image && image.shape != *request.image)
        throw DataError("{}: is an image of {}, and the model learnt images of {}",
                        path,
                        to_string(image.shape),
                        to_string(*request.image));
      result.push_back({.tokens = std::move(image.values)});
    }
  } catch (const DataError& error) {
    throw DataError("{}: {}", request.place(line), error.what());
  }
  return result;
}

LabelledKind labelled_images() {
  LabelledKind kind = classes_of("image");
  kind.unit = "nats an image";
  kind.field = "pixels";
  kind.problem = images_problem;
  kind.learn = [](const DataOptions& data, const Communicator& all, const ScanListener& listener) {
    return learn_image_labels(image_files(data.train, data.train_target), all, listener);
  };
  kind.open = [](const LabelledFile& file) {
    auto images =
        open_images(image_files(file.path, file.target), file.labels, file.all, file.listener);
    require_short(*images, file.data.buckets);
    return images;
  };
  kind.read = images_of_line;
  return kind;
}

}  // namespace

TaskKind classification_task() {
  return labelled_task([](const DataOptions& data) {
    return data.format == DataFormat::images ? labelled_images() : labelled_texts();
  });
}

}  // namespace longspan
