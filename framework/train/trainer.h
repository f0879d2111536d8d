// One training step, and all that must survive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/batch.h"
#include "framework/model/model.h"
#include "framework/train/gradient_reduction.h"
#include "framework/train/optimizer.h"
#include "framework/train/precision_options.h"

namespace longspan {

struct StepRequest {
  // Whether all ranks are to stop after the step: asked at its end, as steps may be long.
  std::function<bool()> stop = {};
  bool measure = false;  // the error of what reversible stacks rebuild
  bool writing = false;  // this rank still writes an earlier state
  // Called on every rank when the loss is known, whatever comes of it: also before a DivergedError.
  std::function<void(double loss)> after_loss = {};
  // Called before weights and optimizer change, if they do.
  std::function<void()> before_update = {};
};

struct StepResult {
  double loss = 0;           // mean over the tokens of the global batch, nats
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  std::optional<double> loss_scale;  // of this step, with f16
  // Where it was measured (nn/reconstruction_error.h).
  std::optional<double> reconstruction_error;
  // Loss or gradient was not finite: weights, Adam's count and the schedule are as before, and
  // with a loss that is not finite the memory.
  bool skipped = false;
  bool stop_requested = false;  // by any rank
  bool writing = false;         // on any rank
  std::int64_t tokens = 0;      // of the global batch
};

// The model with its optimizer and the memory of this rank's streams. A step is the same on every
// layout: to the bit on the same one, to rounding on another.
class Trainer {
 public:
  // `random`: the run's, from which each step draws its own. `precision`: how gradients are scaled
  // and summed; what is computed in is the model's.
  Trainer(std::unique_ptr<Model> model,
          const TrainingOptions& options,
          const Random& random,
          const PrecisionOptions& precision = {});

  // Collective. Works through this rank's streams in `accumulation` parts, which must divide them.
  // Throws DivergedError, the same on every rank, when too many steps in a row were skipped; those
  // that a loss scale that is still too large explains do not count.
  StepResult step(const Batch& batch, const StepRequest& request = {});

  // Collective. The mean loss of the batch under the weights and the memory as they are now,
  // without dropout: whether a state that no step has begun with gives one. Nothing changes.
  double loss_of(const Batch& batch) const;

  // Steps so far, skipped ones included, and those skipped.
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return skipped_; }
  std::int64_t tokens() const { return tokens_; }

  // Rows that the streams remember now.
  std::int64_t memory_length() const { return memory_.front().length(); }

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ProcessMesh& mesh() const { return model_->parameters().mesh(); }

  // Adds weights, optimizer, memory and counters to a state to be saved. `streams`: of the global
  // batch.
  void save(TrainingState& state, std::int64_t streams) const;
  // Takes them from a checkpoint of any layout; `range` are this rank's streams.
  void restore(const Checkpoint& checkpoint, const StreamRange& range, std::int64_t streams);

 private:
  struct Sums {
    double loss = 0;
    double squared_norm = 0;
    double stops = 0;
    double writing = 0;
  };
  double scale() const { return loss_scale_ ? loss_scale_->value() : 1.0; }
  std::int64_t count_tokens(const Batch& batch) const;
  Segment segment_of(const Batch& batch, std::size_t part) const;
  Tensor run_part(const Batch& batch, std::size_t part, double weight);
  const Tensor& seed();
  Sums agree(const std::vector<Tensor>& losses, const StepRequest& request) const;
  void judge(const Batch& batch, const StepResult& result);
  void add_memory(TrainingState& state, std::int64_t streams) const;

  std::unique_ptr<Model> model_;
  TrainingOptions options_;
  Random random_;
  Optimizer optimizer_;
  GradientReduction reduction_;
  Schedule schedule_;
  std::optional<LossScale> loss_scale_;  // with f16
  Tensor seed_;                          // the gradient of the loss: seed_scale_
  double seed_scale_ = 0;
  std::shared_ptr<ReconstructionError> reconstruction_;  // of a step that is measured
  // Of each part of this rank's streams: what is remembered, and what will be if the loss is
  // finite.
  std::vector<SegmentMemory> memory_;
  std::vector<SegmentMemory> next_memory_;
  std::int64_t first_stream_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_a_row_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace longspan
