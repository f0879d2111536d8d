// Gradients summed over the ranks that hold the same weights, while the backward pass goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// Sums the parameters' gradients bucket by bucket. The reduction of a bucket starts when its last
// gradient is complete. Where something is shared out, each rank gets the sum of what it owns
// alone; where gradients are, a bucket has memory only from its first gradient until it is reduced,
// at most one is under way beside those that fill, and each part of an accumulation is reduced and
// added to what the rank owns. The parameters must outlive it, and it may not be moved: they call
// it.
class GradientReducer {
 public:
  // `traffic`: bf16 to round what is sent, which halves it; the sum itself is made in f32 and
  // rounded once. Any wider type: the gradients as they are.
  explicit GradientReducer(const Parameters& parameters, DType traffic = DType::f32);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  // Before the backward pass of part `part` of `parts`, whose gradients together make the step's.
  void begin(std::size_t part, std::size_t parts);
  // Between ops of that pass: moves the reductions on.
  void progress();
  // After it: starts what is left (parameters that nothing reached count as zeros) and waits for
  // all.
  void finish();

 private:
  struct BucketReduction {
    explicit BucketReduction(const ParameterBucket& whole)
        : bucket(&whole), gradient(whole.gradient) {}

    const ParameterBucket* bucket;
    Tensor gradient;  // of the whole bucket
    Tensor sent;      // the same, or its rounded copy
    Tensor received;  // the sum; what the rank owns of it where something is shared out
    std::size_t missing = 0;
    bool started = false;
    Request request;
  };

  bool shares() const { return sharing_.zero > 0; }
  bool shares_gradients() const { return sharing_.zero > 1; }
  Tensor gradient_of(BucketReduction& flow, std::size_t parameter);
  void ready(BucketReduction& flow);
  void start(BucketReduction& flow);
  void complete(BucketReduction& flow);
  void wait_for_all();

  const Parameters& parameters_;
  ZeroOptions sharing_;
  DType traffic_;
  std::vector<BucketReduction> flows_;  // of the trained buckets that several ranks hold
  bool active_ = false;
  bool adds_ = false;  // to what earlier parts have left
};

}  // namespace longspan
