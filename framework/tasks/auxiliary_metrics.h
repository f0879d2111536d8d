// What a body watches, over all batches of a measurement.
#pragma once

#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "framework/tasks/task.h"

namespace longspan {

// The sum over ranks of numbers, of which some ranks may have fewer than others. Collective.
std::vector<double> sum_over(const Communicator& ranks, std::vector<double> numbers);

class AuxiliaryMetricSums {
 public:
  explicit AuxiliaryMetricSums(const ProcessMesh& mesh) : mesh_(mesh) {}

  // Of one batch, which counts what each is a mean over. All batches watch the same.
  void add(const std::vector<AuxiliaryMetric>& watched, const Batch& batch);

  // Adds to what was measured, for "steps": the figures "steps_mean" and "steps_largest", the curve
  // "steps" where positions are known, and words. Collective over all ranks.
  void give(Measurement& measured) const;

 private:
  struct Sums {
    std::string name = {};
    double sum = 0;
    double count = 0;
    double largest = 0;
    std::vector<double> at = {};  // sum and rows of each position
  };
  ProcessMesh mesh_;
  std::vector<Sums> sums_;
};

}  // namespace longspan
