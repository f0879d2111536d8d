// Recurrence over depth (Dehghani et al. 2019): the layers of a stack run several times, a fixed
// number or adaptively per position, with a timing signal each time.
#pragma once

#include "framework/nn/adaptive_computation_time.h"
#include "framework/nn/residual/residual.h"
#include "models/step_timing_signals.h"

namespace longspan {

// Number of steps: one pass, a fixed number, or adaptive per position.
enum class RecurrenceType : std::uint8_t { none, fixed, adaptive };

// Function of a layer after its attention: a feed-forward layer on each position, or separable
// convolutions over positions.
enum class Transition : std::uint8_t { feed_forward, separable_convolution };

struct RecurrenceOptions {
  StepSignalOptions signals = {};
  Transition transition = Transition::feed_forward;
  std::vector<std::int64_t> kernel_sizes = {3, 5};  // of the separable convolutions
  RecurrenceType count = RecurrenceType::fixed;
  ActOptions halting = {};  // its number of steps also applies to `fixed`
  double ponder_weight = 0.01;

  bool is_recurrent() const { return count != RecurrenceType::none; }
  bool adaptive() const { return count == RecurrenceType::adaptive; }
  bool convolves() const {
    return is_recurrent() && transition == Transition::separable_convolution;
  }
};

// Declares the keys of signals, steps and halting, without model.recurrence.type.
void declare(OptionTable& table, RecurrenceOptions& options, const PositionOptions& positions);
// Declares these keys and model.recurrence.type, for families without recurrence by default.
void declare_recurrence(OptionTable& table,
                        RecurrenceOptions& options,
                        const PositionOptions& positions);

// Returns why a stack with these options does not support recurrence; empty if it does.
std::string validate_recurrence(const RecurrenceOptions& options, const ModelOptions& common);
// Returns the keys that validate_recurrence reads.
std::vector<std::string> recurrence_keys();

// Returns the positions added to embeddings: none where each step adds its own.
PositionOptions positions_of_embedding(const PositionOptions& positions,
                                       const RecurrenceOptions& recurrence);

// Receives the halting result, from which the family computes a loss term.
using GivePondered = std::function<void(const ActResult&)>;

// Names of the term "ponder_cost" and the metric "act_steps", with `prefix` before them, over the
// batch's count `count`.
struct PonderedNames {
  std::string prefix = {};
  std::string count = "tokens";
};
void add_ponder_loss(const ActResult& pondered,
                     double weight,
                     const PonderedNames& names,
                     const ProcessMesh& mesh,
                     BackboneOutput& states);

// Returns the batch with the sum of a length field as a count, the divisor of the ponder cost.
Batch counted(Batch batch, const std::string& lengths, const std::string& count);

// Value type.
class Recurrence {
 public:
  struct Options {
    RecurrenceOptions recurrence;
    PositionOptions positions;
    std::int64_t width = 0;
    Initializer initial = {};  // of tables
    bool reversible = false;
  };
  // Creates the weights of StepTimingSignals and, for adaptive steps, "halting/weight" and
  // "halting/bias".
  Recurrence(const Scope& scope, const Options& options, const ModelBuildOptions& setting);

  // Runs the layers for each step. x and the result: as Residual::run. The pass has the path of the
  // stack. Padding, given by the context's key_length, takes no adaptive steps. watch: records the
  // last step of a fixed number of steps.
  Variable run(const std::vector<Layer>& layers,
               const Residual& residual,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {},
               const GivePondered& give = {}) const;

  // The longest sequence; 0: unlimited.
  std::int64_t longest() const { return signals_.longest(); }

 private:
  std::vector<Layer> unrolled(const std::vector<Layer>& layers, const ForwardContext& pass) const;

  Options options_;
  StepTimingSignals signals_;
  std::optional<AdaptiveComputationTime> halting_;
};

}  // namespace longspan
