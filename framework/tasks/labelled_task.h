// What tagging and classification share: files whose labels are learnt from the training data, read
// in batches of like length.
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

// Those of a checkpoint; none where it has none. Throws DataError; `place` begins the message.
LabelSet labels_of(const Scalars& scalars, const std::string& place);

// The scalars of a checkpoint that was trained on images.
inline constexpr const char* image_scalars[] = {
    "data/image_height", "data/image_width", "data/image_channels"};

void save_image(const ImageShape& image, Scalars& scalars);
// Nothing of a checkpoint that was not.
std::optional<ImageShape> image_of(const Scalars& scalars);

// How good choices are, as sums that add over ranks.
class LabelScores {
 public:
  virtual ~LabelScores() = default;
  // choices: as Readout::choices.
  virtual void add(const Batch& batch, const Tensor& choices) = 0;
  virtual std::vector<double> sums() const = 0;
  virtual std::vector<MetricValue> figures(std::span<const double> sums) = 0;
};

// A file whose labels are to be among those that are known.
struct LabelledFile {
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
  std::string unit;                     // of the loss: "nats a tag"
  std::string line = {};                // content of a line of the file, where it is a text
  std::string count;                    // what the loss is divided by: a count of a batch
  std::string field = "tokens";         // the field that the model reads
  std::string target;                   // the field with what is wanted
  bool each_token = false;              // it has one for each token
  std::vector<ValidationMetric> goals;  // beside the loss
  OutputHeadFactory readout;
  // What keeps it from such data beside what keeps all from them; "" where nothing does.
  std::function<std::string(const DataOptions&)> problem = {};
  std::function<LearnedLabels(const DataOptions&, const Communicator&, const ProgressCallback&)>
      learn;
  std::function<std::shared_ptr<const Examples>(const LabelledFile&)> open;
  // labels: those that are learnt, then those that only the measured file has.
  std::function<std::unique_ptr<LabelScores>(const LabelSet& learnt, const LabelSet& labels)>
      scores = {};
  // A remark on labels that are learnt, for the log; "" where there is none.
  std::function<std::string(const LabelSet&)> remark = {};
  // In place of scores, of models that choose nothing: what else the mean loss says.
  std::function<std::vector<MetricValue>(double loss)> figures_of_loss = {};
  // What the line of that number names, to be labelled: one, or of a file that holds several each.
  // Throws DataError. Collective.
  std::function<std::vector<LabelledLine>(const PredictRequest&, std::size_t line)> read = {};
};

// The same task may read data of several formats, each by a kind of its own; documentation and
// readout are those of the usual data.
TaskSpec labelled_task(const std::function<LabeledTaskSpec(const DataOptions&)>& kind_of);

}  // namespace longspan
