// Timing signals of position and step, added to the input of a block that runs several times
// (Dehghani et al. 2019).
#pragma once

#include "models/positions.h"

namespace longspan {

enum class StepTimingSignalType : std::uint8_t { sinusoidal, learned, none };

struct StepSignalOptions {
  // Layout of sinusoids. paper: sines and cosines interleaved, counted from 1. tensor2tensor: all
  // sines first, counted from 0.
  enum class Order : std::uint8_t { paper, tensor2tensor };

  StepTimingSignalType kind = StepTimingSignalType::sinusoidal;  // of the steps
  Order order = Order::paper;
  // In training, positions are shifted by up to this offset, drawn for each training step. All
  // stacks of a model share the offset, so that their positions match.
  std::int64_t max_position_shift = 0;
};

// Declares the keys model.recurrence.step_timing_signal, model.recurrence.timing_signal_layout and
// model.recurrence.max_position_shift.
void declare(OptionTable& table, StepSignalOptions& options, const PositionOptions& positions);

// Value type.
class StepTimingSignals {
 public:
  struct Options {
    StepSignalOptions signals;
    PositionOptions positions;  // relative ones have no signal
    std::int64_t width = 0;
    std::int64_t steps = 1;
    Initializer initial = {};  // of tables
  };
  // Creates "positions/weight" [longest, width] and "steps/weight" [steps, width] where they are
  // learned. Throws ConfigurationError for an offset with positions that are not sinusoidal.
  StepTimingSignals(const Scope& scope, const Options& options, const ModelBuildOptions& setting);

  // Returns the positions of this rank's rows.
  Ranges positions(const ForwardContext& pass) const;
  // Returns their signals, [total_count(positions), width] in an accumulator dtype; undefined where
  // there are none.
  Variable of(const Ranges& positions) const;
  // Returns x [batch, time, width] plus the position signals from `of` and the signal of the step,
  // counted from 0.
  Variable add(const Variable& x, const Variable& of_positions, std::int64_t step) const;
  // The longest sequence; 0: unlimited.
  std::int64_t longest() const { return positions_ ? positions_->global_shape[0] : 0; }

 private:
  Variable of_step(std::int64_t step) const;  // [width]; undefined where there is none

  Options options_;
  DType wide_;
  Device device_;
  Random offsets_;  // by training step
  Weight positions_;
  Weight steps_;
};

}  // namespace longspan
