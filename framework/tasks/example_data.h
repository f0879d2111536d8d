// Batches of similar length, for tasks on separate examples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/batching/batch_rows.h"
#include "framework/data/batching/bucketed_source.h"
#include "framework/data/examples/examples.h"
#include "framework/tasks/task.h"

namespace longspan {

// The training and validation examples of a run.
class ExampleData {
 public:
  // Collective. Opens data.train or data.validation with its target file (data.*_target; empty if
  // there is none).
  using Open = std::function<std::shared_ptr<const Examples>(const ConfigPath& file,
                                                             const ConfigPath& target)>;

  // Collective. Checks the data against the batch keys before training starts. Throws as
  // ExampleLengths and `open` do.
  ExampleData(const TaskContext& setting, const Open& open);

  const Examples& examples() const { return *examples_; }
  // Null without data.validation.
  const std::shared_ptr<const Examples>& validation() const { return validation_; }
  const BucketOptions& buckets() const { return data_.buckets; }
  const BatchShard& division() const { return division_; }

  const DataFingerprint& identity() const { return identity_; }
  std::unique_ptr<BatchSource> source() const;
  // Returns the batch shapes of an epoch.
  std::vector<BatchShape> batches() const;
  // "FILE: WHAT, 12 steps in the first epoch; ..."
  std::string introduction(const std::string& what) const;

 private:
  DataOptions data_;
  std::uint64_t seed_;
  BatchShard division_;
  std::shared_ptr<const Examples> examples_;
  DataFingerprint identity_;
  std::shared_ptr<const Examples> validation_;
};

// Adds the coverage of the examples: the metrics "fraction" for a sample and "truncated" (number of
// truncated examples) if any, and text.
void add_coverage(const ExampleCoverage& coverage, Measurement& measured);

// Returns a callback that reports progress at intervals; empty if the message callback is empty.
// `examples`: "images".
std::function<void(std::size_t)> progress(const std::function<void(const std::string&)>& say,
                                          const std::string& examples,
                                          std::size_t all,
                                          double seconds = 20);

// Returns the shapes of the fields of `rows` rows with these columns, by name.
using FieldShapes =
    std::function<std::map<std::string, Shape>(std::int64_t rows, const Lengths& columns)>;

// Returns a batch of the given shape, or a full batch of the longest examples; pairs then have as
// many columns on each side.
Batch meta_examples(const MetaBatch& wanted, bool pairs, const FieldShapes& fields);

// Returns the batch shapes of a run's first epoch, for TaskSpec::planned_batches.
std::vector<BatchShape> batches_of(std::shared_ptr<const Examples> examples,
                                   const DataOptions& data,
                                   std::uint64_t seed);

}  // namespace longspan
