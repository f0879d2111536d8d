// What tasks on separate examples share: their data in batches of like length.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/batching/batch_rows.h"
#include "framework/data/corpus/sequential_reader.h"
#include "framework/data/examples/examples.h"
#include "framework/tasks/task.h"

namespace longspan {

// The training and validation examples of a run.
class ExampleData {
 public:
  // Of data.train or data.validation and what belongs to it (data.*_target; empty where there is
  // none). Collective.
  using Open = std::function<std::shared_ptr<const Examples>(const ConfigPath& file,
                                                             const ConfigPath& target)>;

  // Collective. What does not fit the keys of batches is found here, not after hours of training:
  // throws as ExampleLengths does, and what `open` throws.
  ExampleData(const TaskContext& setting, const Open& open);

  const Examples& examples() const { return *examples_; }
  // Null without data.validation.
  const std::shared_ptr<const Examples>& validation() const { return validation_; }
  const BucketOptions& buckets() const { return data_.buckets; }
  const BatchShard& division() const { return division_; }

  const DataFingerprint& identity() const { return identity_; }
  std::unique_ptr<BatchSource> source() const;
  // Of an epoch's batches.
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

// Adds how much of the examples was measured: the metrics "fraction" where it is a sample and
// "truncated" (examples that were cut) where there are any, and text.
void add_coverage(const ExampleCoverage& coverage, Measurement& measured);

// Says every so many seconds how many of the examples are done; `say` may be empty, and then the
// result is. `examples`: "images".
std::function<void(std::size_t)> progress(const std::function<void(const std::string&)>& say,
                                          const std::string& examples,
                                          std::size_t all,
                                          double seconds = 20);

// The fields of so many rows with such columns, by name: their shapes.
using FieldShapes =
    std::function<std::map<std::string, Shape>(std::int64_t rows, const Lengths& columns)>;

// Of the wanted shape, or a full batch of examples of the longest length, those of pairs with as
// many columns on each side.
Batch meta_examples(const MetaBatch& wanted, bool pairs, const FieldShapes& fields);

// Of the batches of a run's first epoch, for TaskSpec::planned_batches.
std::vector<BatchShape> batches_of(std::shared_ptr<const Examples> examples,
                                   const DataOptions& data,
                                   std::uint64_t seed);

}  // namespace longspan
