// What a block that runs several times is told of where it is: signals of the position and of the
// step, added to what it reads (Dehghani et al. 2019).
#pragma once

#include "models/positions.h"

namespace longspan {

enum class StepTimingSignalType : std::uint8_t { sinusoidal, learned, none };

struct StepSignalOptions {
  // How sinusoids are laid out and counted: sines and cosines in turn, positions and steps from 1
  // (the paper); or first all sines, from 0 (tensor2tensor).
  enum class Order : std::uint8_t { paper, tensor2tensor };

  StepTimingSignalType kind = StepTimingSignalType::sinusoidal;  // of the steps
  Order order = Order::paper;
  // In training, positions are counted from up to so many further on, drawn for each step of
  // training: in all stacks of a model the same, so that what belongs together stays together.
  std::int64_t longest_offset = 0;
};

// The keys model.recurrence.step_timing_signal, model.recurrence.timing_signal_layout and
// model.recurrence.max_position_shift.
void declare(OptionTable& table, StepSignalOptions& options, const PositionOptions& positions);

// A value.
class StepTimingSignals {
 public:
  struct Options {
    StepSignalOptions signals;
    PositionOptions positions;  // relative ones have no signal
    std::int64_t width = 0;
    std::int64_t steps = 1;
    Initializer initial = {};  // of tables
  };
  // Makes "positions/weight" [longest, width] and "steps/weight" [steps, width] where they are
  // learned. Throws ConfigurationError for an offset of positions that are not sinusoidal.
  StepTimingSignals(const Scope& scope, const Options& options, const ModelBuildOptions& setting);

  // Where the rows that this rank has stand.
  Ranges positions(const ForwardContext& pass) const;
  // Their signals, [count_of(positions), width] of an accumulator dtype; undefined where there are
  // none.
  Variable of(const Ranges& positions) const;
  // x [batch, time, width] with the signals of its positions, as `of` gave them, and of the step,
  // counted from 0.
  Variable add(const Variable& x, const Variable& of_positions, std::int64_t step) const;
  // The longest sequence; 0: any.
  std::int64_t longest() const { return positions_ ? positions_->global_shape[0] : 0; }

 private:
  Variable of_step(std::int64_t step) const;  // [width]; undefined where there is none

  Options options_;
  DType wide_;
  Device device_;
  Random offsets_;  // by step of training
  Weight positions_;
  Weight steps_;
};

}  // namespace longspan
