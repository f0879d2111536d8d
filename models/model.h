// What a model is to the trainer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/nn/parameters.h"
#include "framework/nn/pass.h"

namespace longspan {

// What a model carries from one segment of its streams to the next: a value, never changed in
// place. One tensor [streams, length, width] for each layer; none where the model has no memory or
// nothing was seen yet.
struct SegmentMemory {
  std::vector<Tensor> layers;

  std::int64_t length() const { return layers.empty() ? 0 : layers.front().shape()[1]; }
};

// What is read in one pass: rows are streams.
struct Segment {
  Tensor tokens;   // [streams, time] i64
  Tensor targets;  // the same, negative: no loss; undefined when only logits are wanted
  SegmentMemory memory;
  // The longest memory to keep afterwards; evaluation may use a longer one than training.
  std::int64_t longest_memory = 0;
};

struct SegmentResult {
  Variable losses = {};       // [streams * time], accumulator dtype; from `losses`
  Variable logits = {};       // [streams, time, this rank's part of the vocabulary]; from `logits`
  SegmentMemory memory = {};  // for the next segment
};

// Floating-point operations of a pass, counted from what the mathematics needs (no recomputation).
struct FlopCount {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};

class Model {
 public:
  virtual ~Model() = default;

  virtual SegmentResult losses(const Segment& segment, const Pass& pass) const = 0;
  virtual SegmentResult logits(const Segment& segment, const Pass& pass) const = 0;

  // The memory that training keeps; 0 for a model without.
  virtual std::int64_t longest_memory() const = 0;
  // The longest segment the model can read; 0: any.
  virtual std::int64_t longest_segment() const { return 0; }
  // Tensors of a SegmentMemory and their width: for reading a checkpoint.
  virtual std::int64_t memory_layers() const = 0;
  virtual std::int64_t memory_width() const = 0;
  // Of the whole model, over all tensor ranks.
  virtual FlopCount flops(std::int64_t streams, std::int64_t time, std::int64_t memory) const = 0;

  virtual const Part& vocabulary() const = 0;

  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

 protected:
  explicit Model(std::unique_ptr<Parameters> parameters) : parameters_(std::move(parameters)) {}

 private:
  std::unique_ptr<Parameters> parameters_;
};

// What a model is built for.
struct ModelSetting {
  std::int64_t vocabulary = 0;
  std::int64_t segment = 0;  // of the training data
  DType compute = DType::f32;
  Device device;
  ProcessMesh mesh = {};
  Random random{0};  // of the initial weights
};

}  // namespace longspan
