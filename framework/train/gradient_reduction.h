// Gradients summed over the ranks that hold the same weights, while the backward pass goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// The flat gradient buffer cut into buckets of neighbouring parameters. The reduction of a bucket
// starts when its last gradient is complete. Gradients that the tensor ranks have shares of
// (sequence parallelism) are summed over these at once. The parameters must outlive it, and it may
// not be moved: they call it.
class GradientReduction {
 public:
  GradientReduction(Parameters& parameters, double bucket_megabytes);
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;
  ~GradientReduction();

  // Before the backward pass whose gradients complete the step.
  void begin();
  // Between ops of that pass: moves the reductions on.
  void progress();
  // After it: starts what is left (parameters that nothing reached count as zeros) and waits for
  // all.
  void finish();

 private:
  struct Bucket {
    Tensor gradients;
    Communicator ranks;  // that hold shares of the sum
    std::vector<const Parameter*> parameters;
    std::size_t missing = 0;
    bool started = false;
    Request request;
  };

  void ready(Bucket& bucket);
  void start(Bucket& bucket);

  std::vector<Bucket> buckets_;
  bool active_ = false;
};

}  // namespace longspan
