// Depth that recurs (Dehghani et al. 2019): the layers of a stack run several times, a fixed number
// or as often as each position needs, and are told each time where they are.
#pragma once

#include "framework/nn/adaptive_computation_time.h"
#include "framework/nn/residual/residual.h"
#include "models/step_timing_signals.h"

namespace longspan {

// How often the layers run: once, as layers do; or several times, all positions as often, or each
// as often as it needs.
enum class RecurrenceType : std::uint8_t { none, fixed, adaptive };

struct RecurrenceOptions {
  StepSignalOptions signals = {};
  RecurrenceType count = RecurrenceType::fixed;
  ActOptions halting = {};  // its steps are those of a fixed number too
  double ponder_weight = 0.01;

  bool is_recurrent() const { return count != RecurrenceType::none; }
  bool adaptive() const { return count == RecurrenceType::adaptive; }
};

// The keys of signals, of steps and of halting, but for the one that says the count. `key` is that
// one's name.
void declare(OptionTable& table,
             RecurrenceOptions& options,
             const PositionOptions& positions,
             const std::string& key);
// The same and model.recurrence.type, for families whose layers run once if nothing is said.
void declare_recurrence(OptionTable& table,
                        RecurrenceOptions& options,
                        const PositionOptions& positions);

// What keeps a stack with these options from recurring, as a sentence; empty where nothing does.
// `key`: as in declare.
std::string recurrence_problem(const RecurrenceOptions& options,
                               const ModelOptions& common,
                               const std::string& key);
// The keys that it reads, with those of `key`.
std::vector<std::string> recurrence_keys(const std::string& key);

// The positions that are added to embeddings: none where each step adds its own.
PositionOptions positions_of_embedding(const PositionOptions& positions,
                                       const RecurrenceOptions& recurrence);

// What halting gave, for the family to make a term of.
using GivePondered = std::function<void(const ActResult&)>;

// What a family says of it: the term "pondering" and the watched "steps", with `prefix` before
// their names, over the batch's count `count`.
struct PonderedNames {
  std::string prefix = {};
  std::string count = "tokens";
};
void add_ponder_loss(const ActResult& pondered,
                     double weight,
                     const PonderedNames& names,
                     const ProcessMesh& mesh,
                     BackboneOutput& states);

// The batch with the sum of a field of lengths as a count, which pondering is divided by.
Batch counted(Batch batch, const std::string& lengths, const std::string& count);

// A value.
class Recurrence {
 public:
  struct Options {
    RecurrenceOptions recurrence;
    PositionOptions positions;
    std::int64_t width = 0;
    Initializer initial = {};  // of tables
    bool reversible = false;
  };
  // Makes the weights of StepTimingSignals and, where steps are adaptive, "halting/weight" and
  // "halting/bias".
  Recurrence(const Scope& scope, const Options& options, const ModelBuildOptions& setting);

  // The layers, as often as there are steps. x and the result: as Residual::run. The pass's place
  // is the stack's. Padding, which the context's key_length says, takes no step of adaptive ones.
  // `watch`: of the sides in the last one of a fixed number of steps.
  Variable run(const std::vector<Layer>& layers,
               const Residual& residual,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {},
               const GivePondered& give = {}) const;

  // The longest sequence; 0: any.
  std::int64_t longest() const { return signals_.longest(); }

 private:
  std::vector<Layer> unrolled(const std::vector<Layer>& layers, const ForwardContext& pass) const;

  Options options_;
  StepTimingSignals signals_;
  std::optional<AdaptiveComputationTime> halting_;
};

}  // namespace longspan
