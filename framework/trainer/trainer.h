// Training step, with all state that a checkpoint must restore.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/batch.h"
#include "framework/modeling/model.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/precision_options.h"
#include "framework/trainer/gradient_reduction.h"
#include "framework/trainer/training_options.h"

namespace longspan {

// Progress within a step that reads its sequences in chunks.
struct ChunkProgress {
  std::int64_t chunk = 0;   // of the current pass, from 1 in the order of the pass
  std::int64_t chunks = 0;  // of the current pass
  bool is_backward = false;
  std::int64_t part = 0;  // microbatch, from 1
  std::int64_t parts = 0;
};

struct StepRequest {
  // Whether this rank requests a stop. Called at the end of the step, because steps may be long,
  // and after each chunk. If any rank requests a stop after a chunk, the step is discarded.
  std::function<bool()> stop = {};
  // Called after each chunk.
  std::function<void(const ChunkProgress&)> after_chunk = {};
  bool measure = false;  // measure the reconstruction error of reversible stacks
  bool writing = false;  // this rank is still writing an earlier state
  // Called on every rank when the loss is known, in all cases, also before a DivergedError. NaN for
  // weights that cannot continue, since they give no finite loss or gradient.
  std::function<void(double loss)> after_loss = {};
  // Called before weights and optimizer change, if they do.
  std::function<void()> before_update = {};
};

// A mean over the count of its term.
struct LossTermValue {
  std::string name;
  double loss = 0;
};

// Over all positions of the global batch.
struct AuxiliaryMetricResult {
  std::string name;
  double mean = 0;
  double largest = 0;
};

struct StepResult {
  double loss = 0;                   // the sum of the terms over the global batch
  std::vector<LossTermValue> terms;  // each without its weight, in order
  std::vector<AuxiliaryMetricResult> watched;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  std::optional<double> loss_scale;  // of this step, with f16
  // If it was measured (nn/forward_context.h).
  std::optional<double> reconstruction_error;
  // Loss or gradient was not finite: weights, Adam's count and the schedule are unchanged. With a
  // non-finite loss the recurrent state is unchanged as well.
  bool skipped = false;
  // Skipped only for gradients that overflowed at a loss scale that is too large; the next steps
  // use a smaller one.
  bool overflowed = false;
  // Whether training can continue from the weights.
  bool can_continue() const { return !skipped || overflowed; }
  bool stop_requested = false;  // by any rank
  // Stopped between two chunks: nothing has changed, and the other members have no values.
  bool is_discarded = false;
  bool writing = false;     // on any rank
  std::int64_t tokens = 0;  // of the global batch
};

// The model with its optimizer and the recurrent state of this rank's rows. A step is bitwise
// reproducible on one layout, and equal up to rounding on others.
class Trainer {
 public:
  // `random`: the run's, from which each step derives its own. `precision`: how gradients are
  // scaled and summed; the compute dtype is the model's.
  Trainer(std::unique_ptr<Model> model,
          const TrainingOptions& options,
          const Random& random,
          const PrecisionOptions& precision = {});

  // Collective. Processes this rank's rows in `accumulation` microbatches, which must divide them.
  // Throws DivergedError, on every rank, after too many consecutive skipped steps. Steps skipped
  // because the loss scale is still too large do not count.
  StepResult step(const Batch& batch, const StepRequest& request = {});

  // Collective. Returns the result of a step on the batch, with the current weights and recurrent
  // state. It shows whether a state that no step has started from gives a finite loss and
  // gradients. Changes nothing.
  StepResult probe_step(const Batch& batch);

  // Collective. Returns whether every trained weight is finite, in one pass over the weights.
  bool has_finite_weights() const;

  // Steps so far, including skipped ones, and the number of skipped ones.
  std::int64_t steps() const { return steps_; }
  std::int64_t skipped() const { return skipped_; }
  std::int64_t tokens() const { return tokens_; }

  // Factor of gradients until an update: the loss scale with f16, else 1.
  double scale() const { return loss_scale_ ? loss_scale_->value() : 1.0; }

  // Length of the recurrent state, in positions.
  std::int64_t recurrent_state_length() const { return carried_.front().length(); }

  // Collective. Returns f(), called with the weights that the optimizer stores, which are the ones
  // to evaluate.
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

  // Adds weights, optimizer, recurrent state and counters to a training state. `rows`: this rank's
  // rows of the source.
  void save(TrainingState& state, const CursorRows& rows) const;
  // Loads them from a checkpoint of any layout; this rank has `count` rows.
  void restore(const Checkpoint& checkpoint, const CursorRows& rows, std::int64_t count);

 private:
  // Divisors of the terms, over all ranks.
  using Counts = std::map<std::string, double, std::less<>>;
  // The loss terms of a microbatch, on the device.
  struct PartLoss {
    std::vector<LossTerm> terms;  // without their values
    std::vector<Variable> losses = {};
    std::vector<AuxiliaryMetric> watched = {};
  };
  struct Sums {
    std::vector<double> losses;  // of the terms, over all microbatches
    double squared_norm = 0;
    double stops = 0;
    double writing = 0;
  };
  Counts count(const Batch& batch) const;
  // Returns how often values that count once occur: over the microbatches, and over ranks that are
  // summed.
  double repeated() const;
  ModelInput reading_of(const Batch& batch, std::size_t part) const;
  // `next`: receives the recurrent state after the pass; may be null.
  PartLoss losses_of(const ModelInput& reading,
                     const Counts& counts,
                     const ForwardContext& pass,
                     RecurrentState* next) const;
  // Runs the forward and backward pass of a microbatch, in chunks with memory.bptt_chunk_length.
  // Returns nullopt if a rank requests a stop between two chunks.
  std::optional<PartLoss> run_part(const Batch& batch,
                                   std::size_t part,
                                   const Counts& counts,
                                   const StepRequest& request);
  // Collective. Returns whether any rank requests a stop.
  bool poll_stop(const StepRequest& request) const;
  // Runs them with the loss, for the whole sequence or the chunk that the KV cache selects. `index`
  // of `count` backward passes of the step.
  PartLoss run_backward(const ModelInput& reading,
                        const Counts& counts,
                        const ForwardContext& pass,
                        RecurrentState* next,
                        std::size_t index,
                        std::size_t count);
  // Runs the backward pass of `roots`, and reduces the gradients.
  void run_backward(std::vector<Variable> roots,
                    std::vector<Tensor> gradients,
                    std::size_t index,
                    std::size_t count);
  const Tensor& seed();
  Sums all_reduce_sums(const std::vector<PartLoss>& parts, const StepRequest& request) const;
  std::vector<AuxiliaryMetricResult> auxiliary_metrics(const std::vector<PartLoss>& parts,
                                                       const Counts& counts) const;
  // Returns the result of the forward and backward pass over the batch.
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
  // For each microbatch of this rank's rows: the recurrent state, and the next one if the loss is
  // finite.
  std::vector<RecurrentState> carried_;
  std::vector<RecurrentState> next_carried_;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_a_row_ = 0;
  std::int64_t tokens_ = 0;
};

// Messages for diverged runs: what to change, and where to resume.

// Returns advice against unbounded weight growth, given the current options: a clause.
std::string divergence_advice(const TrainingOptions& options);

// Returns a clause about the checkpoint that the run resumes from and about an earlier one, also if
// there is none. `resume`: checkpoint.resume_from.
std::string resume_hint(const std::filesystem::path& checkpoints, const std::string& resume);

// Throws DivergedError if the reconstruction error of a reversible stack exceeds
// memory.reconstruction_tolerance or is NaN.
void check_reconstruction_error(std::int64_t step, double error, double bound);

}  // namespace longspan
