// Sums of auxiliary metrics over the batches of an evaluation.
#pragma once

#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "framework/tasks/task.h"

namespace longspan {

// Collective. Returns the sum over ranks of vectors, which may be shorter on some ranks.
std::vector<double> sum_over(const Communicator& ranks, std::vector<double> numbers);

class AuxiliaryMetricSums {
 public:
  explicit AuxiliaryMetricSums(const ProcessMesh& mesh) : mesh_(mesh) {}

  // Adds one batch, which has the counts of the means. All batches must have the same metrics.
  void add(const std::vector<AuxiliaryMetric>& watched, const Batch& batch);

  // Collective over all ranks. Adds to `measured`, for "act_steps": the metrics "act_steps_mean"
  // and "act_steps_max", the curve "act_steps" where positions are known, and text.
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
