#include "framework/tasks/classification.h"

#include "framework/data/label_examples.h"
#include "framework/metrics/classification.h"
#include "framework/metrics/sums.h"
#include "framework/model/class_readout.h"
#include "framework/tasks/labelled_task.h"

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

}  // namespace

TaskKind classification_task() {
  return labelled_task(
      {.task = "classification",
       .documentation = "the class of a text; a class, a tab and the text on every line",
       .label = "class",
       .labels = "classes",
       .example = "text",
       .count = "rows",
       .target = "label",
       .goals = {{"accuracy"}, {"macro_f1"}},
       .readout = class_readout(),
       .learn =
           [](const DataOptions& data, const Communicator& all, const ScanListener& listener) {
             return learn_labels(data.train, all, listener);
           },
       .open =
           [](const NamedPath& path,
              const DataOptions&,
              const LabelSet& labels,
              const Tokenizer& tokenizer,
              const Communicator& all,
              const ScanListener& listener) {
             return open_labels(path, labels, tokenizer, all, listener);
           },
       .scores = [](const LabelSet& labels) -> std::unique_ptr<LabelScores> {
         return std::make_unique<ClassScores>(labels);
       },
       .read = [](const Tokenizer& tokenizer, const std::string& line, const std::string& place)
           -> LabelledLine { return {.tokens = tokenizer.encode(line, place)}; }});
}

}  // namespace longspan
