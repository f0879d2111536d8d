// One training step, and all that must survive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/source.h"
#include "framework/modeling/model.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/precision_options.h"
#include "framework/trainer/gradient_reduction.h"
#include "framework/trainer/training_options.h"

namespace longspan {

struct StepRequest {
  // Whether all ranks are to stop after the step: asked at its end, as steps may be long.
  std::function<bool()> stop = {};
  bool measure = false;  // the error of what reversible stacks rebuild
  bool writing = false;  // this rank still writes an earlier state
  // Called on every rank when the loss is known, whatever comes of it: also before a DivergedError.
  // Of weights that nothing can go on from, since they give no finite loss or gradient, it is no
  // number.
  std::function<void(double loss)> after_loss = {};
  // Called before weights and optimizer change, if they do.
  std::function<void()> before_update = {};
};

// A mean over what its term counts.
struct LossTermValue {
  std::string name;
  double loss = 0;
};

// Of all positions of the global batch.
struct AuxiliaryMetricResult {
  std::string name;
  double mean = 0;
  double largest = 0;
};

struct StepResult {
  double loss = 0;                   // the sum of the terms over the global batch
  std::vector<LossTermValue> terms;  // each without its weight, in their order
  std::vector<AuxiliaryMetricResult> watched;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  std::optional<double> loss_scale;  // of this step, with f16
  // Where it was measured (nn/reconstruction_error.h).
  std::optional<double> reconstruction_error;
  // Loss or gradient was not finite: weights, Adam's count and the schedule are as before, and
  // with a loss that is not finite the memory.
  bool skipped = false;
  // Skipped for gradients alone, by a loss scale that is too large: the next steps have a smaller
  // one.
  bool overflowed = false;
  // Whether training can go on from the weights.
  bool can_continue() const { return !skipped || overflowed; }
  bool stop_requested = false;  // by any rank
  bool writing = false;         // on any rank
  std::int64_t tokens = 0;      // of the global batch
};

// The model with its optimizer and what this rank's rows carry from batch to batch. A step is the
// same on every layout: to the bit on the same one, to rounding on another.
class Trainer {
 public:
  // `random`: the run's, from which each step draws its own. `precision`: how gradients are scaled
  // and summed; what is computed in is the model's.
  Trainer(std::unique_ptr<Model> model,
          const TrainingOptions& options,
          const Random& random,
          const PrecisionOptions& precision = {});

  // Collective. Works through this rank's rows in `accumulation` parts, which must divide them.
  // Throws DivergedError, the same on every rank, when too many steps in a row were skipped; those
  // that a loss scale that is still too large explains do not count.
  StepResult step(const Batch& batch, const StepRequest& request = {});

  // Collective. What a step on the batch would find, with the weights and what is carried as they
  // are now: whether a state that no step has begun with gives a loss and gradients. Nothing
  // changes.
  StepResult probe_step(const Batch& batch);

  // Collective. Whether every trained weight is finite: one pass over the weights, no step.
  bool has_finite_weights() const;

  // Steps so far, skipped ones included, and those skipped.
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return skipped_; }
  std::int64_t tokens() const { return tokens_; }

  // What gradients are multiplied by until an update: the loss scale with f16, else 1.
  double scale() const { return loss_scale_ ? loss_scale_->value() : 1.0; }

  // What the rows of each stream carry now: how much of it along its time.
  std::int64_t recurrent_state_length() const { return carried_.front().length(); }

  // f(), for which the model computes with the weights that the optimizer keeps: what is to be
  // measured. Collective.
  template <typename F>
  auto with_eval_weights(F&& f) const {
    optimizer_.use_eval_weights();
    auto result = f();
    optimizer_.use_train_weights();
    return result;
  }

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ProcessMesh& mesh() const { return model_->parameters().mesh(); }

  // Adds weights, optimizer, what rows carry and counters to a state to be saved. `rows`: those of
  // the source that this rank has.
  void save(TrainingState& state, const CursorRows& rows) const;
  // Takes them from a checkpoint of any layout; this rank has `count` rows.
  void restore(const Checkpoint& checkpoint, const CursorRows& rows, std::int64_t count);

 private:
  // What terms are divided by, over all ranks.
  using Counts = std::map<std::string, double, std::less<>>;
  // The terms of a part: what they add to the loss, on the device.
  struct PartLoss {
    std::vector<LossTerm> terms;  // without their values
    std::vector<Variable> losses = {};
    std::vector<AuxiliaryMetric> watched = {};
  };
  struct Sums {
    std::vector<double> losses;  // of the terms, over all parts
    double squared_norm = 0;
    double stops = 0;
    double writing = 0;
  };
  Counts count(const Batch& batch) const;
  // How often what counts once is there: in the parts of a batch, and on ranks that add up.
  double repeated() const;
  ModelInput reading_of(const Batch& batch, std::size_t part) const;
  // `next`, where given: what the rows carry afterwards.
  PartLoss losses_of(const ModelInput& reading,
                     const Counts& counts,
                     const ForwardContext& pass,
                     RecurrentState* next) const;
  PartLoss run_part(const Batch& batch, std::size_t part, const Counts& counts);
  const Tensor& seed();
  Sums all_reduce_sums(const std::vector<PartLoss>& parts, const StepRequest& request) const;
  std::vector<AuxiliaryMetricResult> auxiliary_metrics(const std::vector<PartLoss>& parts,
                                                       const Counts& counts) const;
  // The gradients of the batch, and what is found on the way.
  StepResult compute(const Batch& batch, const StepRequest& request);
  void check_divergence(const Batch& batch, const StepResult& result);

  std::unique_ptr<Model> model_;
  TrainingOptions options_;
  Random random_;
  Optimizer optimizer_;
  GradientReducer reduction_;
  LrSchedule schedule_;
  std::optional<LossScaler> loss_scale_;  // with f16
  Tensor seed_;                           // the gradient of the loss: seed_scale_
  double seed_scale_ = 0;
  std::shared_ptr<ReconstructionError> reconstruction_;  // of a step that is measured
  // Of each part of this rank's rows: what they carry, and what they will if the loss is finite.
  std::vector<RecurrentState> carried_;
  std::vector<RecurrentState> next_carried_;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_a_row_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace longspan
