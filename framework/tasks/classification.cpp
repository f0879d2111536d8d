#include "framework/metrics/classification.h"

#include "framework/data/examples/label_examples.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/metrics/sums.h"
#include "framework/modeling/heads.h"
#include "framework/tasks/labeled_data.h"
#include "framework/tasks/registry.h"

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
  std::vector<MetricValue> figures(std::span<const double> sums) override {
    consume_sums(found_, sums);
    return longspan::metric_values(found_, names_);
  }

 private:
  std::vector<std::string> names_;
  Classification found_;
};

// Common parts of both data formats.
LabeledTaskSpec classes_of(const std::string& example) {
  LabeledTaskSpec kind;
  kind.task = "classification";
  kind.documentation =
      "prediction of the class of a text, or of an image with data.format: images; text files have "
      "a class, a tab and the text per line";
  kind.label = "class";
  kind.labels = "classes";
  kind.example = example;
  kind.count = "rows";
  kind.target = "label";
  kind.goals = {{"accuracy"}, {"macro_f1"}};
  kind.readout = classification_head();
  kind.scores = [](const LabelSet&, const LabelSet& labels) {
    return std::make_unique<ClassScores>(labels);
  };
  return kind;
}

LabeledTaskSpec labeled_texts() {
  LabeledTaskSpec kind = classes_of("text");
  kind.unit = "nats per text";
  kind.line = "a class, a tab and a text";
  kind.problem = [texts = kind](const DataOptions& data) {
    return validate_labeled_text(texts, data);
  };
  kind.learn =
      [](const DataOptions& data, const Communicator& all, const ProgressCallback& listener) {
        return learn_labels(data.train, all, listener);
      };
  kind.open = [](const LabeledFile& file) {
    return open_labels(file.path, file.labels, file.tokenizer, file.all, file.listener);
  };
  kind.read = [](const PredictRequest& request, std::size_t line) -> std::vector<LabeledLine> {
    const std::string place = request.place(line);
    std::vector<std::int64_t> ids = request.tokenizer.encode(request.lines[line], place);
    if (ids.empty()) return {LabeledLine()};
    return {{.tokens = add_special_tokens(
                 SpecialTokenTemplate(request.tokenizer), std::move(ids), place)}};
  };
  return kind;
}

LabeledTaskSpec labeled_images() {
  LabeledTaskSpec kind = classes_of("image");
  kind.unit = "nats per image";
  kind.field = "pixels";
  kind.problem = validate_labeled_images;
  kind.learn =
      [](const DataOptions& data, const Communicator& all, const ProgressCallback& listener) {
        return LearnedLabels{learn_labels_of_images(data, Unlabeled::refused, all, listener)};
      };
  kind.open = [](const LabeledFile& file) { return open_labeled_images(file, Unlabeled::refused); };
  kind.read = images_of_line;
  return kind;
}

}  // namespace

TaskSpec classification_task() {
  return labeled_task([](const DataOptions& data) {
    return data.format == DataFormat::images ? labeled_images() : labeled_texts();
  });
}

}  // namespace longspan
