// Common parts of tagging and classification. Labels are collected from the training data, and
// examples are batched by length.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/tasks/label_lines.h"
#include "framework/tasks/task.h"

namespace longspan {

// The scalar of a checkpoint: LabelSet::to_json.
inline constexpr const char* labels_scalar = "data/labels";

// Returns the labels of a checkpoint; none if it has none. Throws DataError, prefixed with `place`.
LabelSet labels_of(const Scalars& scalars, const std::string& place);

// The scalars of a checkpoint trained on images.
inline constexpr const char* image_scalars[] = {
    "data/image_height", "data/image_width", "data/image_channels"};

void save_image(const ImageShape& image, Scalars& scalars);
// Returns nullopt for other checkpoints.
std::optional<ImageShape> image_of(const Scalars& scalars);

// Quality of predictions, as sums that add over ranks.
class LabelScores {
 public:
  virtual ~LabelScores() = default;
  // choices: as OutputHead::predictions.
  virtual void add(const Batch& batch, const Tensor& choices) = 0;
  virtual std::vector<double> sums() const = 0;
  virtual std::vector<MetricValue> figures(std::span<const double> sums) = 0;
};

// A file whose labels must be in `labels`.
struct LabeledFile {
  const ConfigPath& path;
  const ConfigPath& target;  // as data.train_target
  const DataOptions& data;
  const LabelSet& labels;
  const Tokenizer& tokenizer;
  const Communicator& all;
  const ProgressCallback& listener;
};

struct LabeledTaskSpec {
  std::string task;                     // run.task
  std::string documentation;            // of the task
  std::string label;                    // "tag"
  std::string labels;                   // "tags"
  std::string example;                  // "sentence"
  std::string unit;                     // of the loss: "nats per tag"
  std::string line = {};                // content of a line of a text file
  std::string count;                    // batch count that divides the loss
  std::string field = "tokens";         // field that the model reads
  std::string target;                   // field with the targets
  bool each_token = false;              // one target per token
  std::vector<ValidationMetric> goals;  // in addition to the loss
  OutputHeadFactory readout;
  // Returns why the task does not support such data, in addition to the common checks; empty if it
  // does.
  std::function<std::string(const DataOptions&)> problem = {};
  std::function<LearnedLabels(const DataOptions&, const Communicator&, const ProgressCallback&)>
      learn;
  std::function<std::shared_ptr<const Examples>(const LabeledFile&)> open;
  // labels: the learned ones, then those only in the evaluated file.
  std::function<std::unique_ptr<LabelScores>(const LabelSet& learnt, const LabelSet& labels)>
      scores = {};
  // Returns a note on the learned labels, for the log; empty if there is none.
  std::function<std::string(const LabelSet&)> remark = {};
  // Replaces `scores` for models that predict no labels: metrics derived from the mean loss.
  std::function<std::vector<MetricValue>(double loss)> figures_of_loss = {};
  // Collective. Returns the lines to label: one, or several where a line names a file. Throws
  // DataError.
  std::function<std::vector<LabeledLine>(const PredictRequest&, std::size_t line)> read = {};
};

// Returns a task that reads several data formats, each with a specification of its own.
// Documentation and output head are those of the default format.
TaskSpec labeled_task(const std::function<LabeledTaskSpec(const DataOptions&)>& kind_of);

}  // namespace longspan
