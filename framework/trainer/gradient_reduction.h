// Gradient reduction over the ranks that hold the same weights, overlapped with the backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// Sums the parameters' gradients by bucket. The reduction of a bucket starts when its last gradient
// is complete. With ZeRO each rank receives only the sum of its shard. With sharded gradients a
// bucket has memory only from its first gradient until its reduction. At most one bucket is then in
// flight while others fill, and each microbatch is reduced and added to the shard. The parameters
// must outlive it. It must not be moved, because parameters hold a callback to it.
class GradientReducer {
 public:
  // `traffic`: bf16 rounds the data sent, which halves the traffic; the sum is computed in f32 and
  // rounded once. Any wider type: gradients are sent unchanged.
  explicit GradientReducer(const Parameters& parameters, DType traffic = DType::f32);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  // Before the backward pass of microbatch `part` of `parts`; their gradients add up to those of
  // the step.
  void begin(std::size_t part, std::size_t parts);
  // Between operations of the backward pass: advances the reductions.
  void progress();
  // After the backward pass: starts the remaining reductions and waits for all. Parameters without
  // a gradient count as zeros.
  void finish();

 private:
  struct BucketReduction {
    explicit BucketReduction(const ParameterBucket& whole)
        : bucket(&whole), gradient(whole.gradient) {}

    const ParameterBucket* bucket;
    Tensor gradient;  // of the bucket
    Tensor sent;      // the bucket, or its rounded copy
    Tensor received;  // the sum; with ZeRO, this rank's shard of it
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
  bool adds_ = false;  // to the gradients of earlier microbatches
};

}  // namespace longspan
