// What a model is to the trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/nn/memory_options.h"
#include "framework/nn/parameters.h"
#include "framework/nn/pass.h"

namespace longspan {

// What a model carries from one segment of its streams to the next: a value, never changed in
// place. One tensor [streams, rows, width] for each layer; none where the model has no memory or
// nothing was seen yet. Ranks that share the time of a stream share its memory (divide_memory).
struct SegmentMemory {
  std::vector<Tensor> layers;
  std::optional<std::int64_t> all_rows = {};  // over the ranks; none: the layers have them all

  std::int64_t length() const {
    return layers.empty() ? 0 : all_rows.value_or(layers.front().shape()[1]);
  }
};

// What is read in one pass: rows are streams. Tokens and targets are whole on every rank, and in
// memory that the host reads.
struct Segment {
  Tensor tokens;           // [streams, time] i64
  Tensor targets;          // the same, negative: no loss; undefined when only logits are wanted
  bool only_last = false;  // of the logits: those of the last position, without gradient
  SegmentMemory memory;
  // The longest memory to keep afterwards; evaluation may use a longer one than training.
  std::int64_t longest_memory = 0;
};

struct SegmentResult {
  // [streams * time], accumulator dtype, of this context rank's positions; from `losses`.
  Variable losses = {};
  // [streams, time, this rank's part of the vocabulary] of the same positions, or of the last one
  // (time 1); from `logits`.
  Variable logits = {};
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

  SegmentResult losses(const Segment& segment, const Pass& pass) const;
  SegmentResult logits(const Segment& segment, const Pass& pass) const;

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
  // What a family computes, of the tokens and targets that this rank reads. `pass` says which
  // positions they have; the longest memory is that of the whole segment.
  virtual SegmentResult losses_of(const Segment& part, const Pass& pass) const = 0;
  virtual SegmentResult logits_of(const Segment& part, const Pass& pass) const = 0;

  template <typename Compute>
  SegmentResult read(const Segment& segment, const Pass& pass, const Compute& compute) const;

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
  MemoryOptions memory = {};
  WeightSharing sharing = {};
};

// What a configuration says of it, for checks over keys of other sections too, which are declared
// before: no vocabulary, and of the mesh the shape. Asked for when all keys are read. Empty where
// the keys of a family are alone in a table.
using PlannedSetting = std::function<ModelSetting()>;

}  // namespace longspan
