// What tagging and classification share: files whose labels are learnt from the training text, read
// in batches of like length.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/examples.h"
#include "framework/data/label_set.h"
#include "framework/tasks/label_lines.h"
#include "framework/tasks/task.h"

namespace longspan {

// The scalar of a checkpoint: LabelSet::to_json.
inline constexpr const char* labels_scalar = "data/labels";

// Those of a checkpoint; none where it has none. Throws DataError; `place` begins the message.
LabelSet labels_of(const Scalars& scalars, const std::string& place);

// How good choices are, as sums that add over ranks.
class LabelScores {
 public:
  virtual ~LabelScores() = default;
  // choices: as Readout::choices.
  virtual void add(const Batch& batch, const Tensor& choices) = 0;
  virtual std::vector<double> sums() const = 0;
  virtual std::vector<Figure> figures(std::span<const double> sums) = 0;
};

struct LabelledKind {
  std::string task;           // run.task
  std::string documentation;  // of the task
  std::string label;          // "tag"
  std::string labels;         // "tags"
  std::string example;        // "sentence"
  std::string count;          // what the loss is divided by: a count of a batch
  std::string target;         // the field with what is wanted
  bool each_token = false;    // it has one for each token
  std::vector<Goal> goals;    // beside the loss
  ReadoutFactory readout;
  std::function<LabelSet(const DataOptions&, const Communicator&, const ScanListener&)> learn;
  std::function<std::shared_ptr<const Examples>(const NamedPath& path,
                                                const DataOptions&,
                                                const LabelSet&,
                                                const Tokenizer&,
                                                const Communicator&,
                                                const ScanListener&)>
      open;
  std::function<std::unique_ptr<LabelScores>(const LabelSet&)> scores;
  // A line that is to be labelled; `place` begins the message of what it throws, DataError.
  std::function<LabelledLine(const Tokenizer&, const std::string& line, const std::string& place)>
      read;
};

TaskKind labelled_task(const LabelledKind& kind);

}  // namespace longspan
