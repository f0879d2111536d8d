#include "models/step_timing_signals.h"

#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

std::string validate_offset(const StepSignalOptions& options, const PositionOptions& positions) {
  if (options.max_position_shift == 0 || positions.kind == PositionEmbeddingType::sinusoidal)
    return "";
  return fmt::format(
      "model.recurrence.max_position_shift: {} requires "
      "model.position_embedding_type: sinusoidal; set it to 0 or change the type",
      options.max_position_shift);
}

}  // namespace

void declare(OptionTable& table, StepSignalOptions& options, const PositionOptions& positions) {
  table.add("model.recurrence.step_timing_signal",
            options.kind,
            "embedding of the step, added to all positions in each step",
            {{"sinusoidal", StepTimingSignalType::sinusoidal},
             {"learned", StepTimingSignalType::learned},
             {"none", StepTimingSignalType::none}},
            affects_weights());
  table.add("model.recurrence.timing_signal_layout",
            options.order,
            "layout of sinusoidal position and step signals: paper (interleaved sines and "
            "cosines, counted from 1) or tensor2tensor (sines before cosines, counted from 0)",
            {{"paper", StepSignalOptions::Order::paper},
             {"tensor2tensor", StepSignalOptions::Order::tensor2tensor}},
            affects_weights());
  table.add("model.recurrence.max_position_shift",
            options.max_position_shift,
            "maximum random shift of the positions in training, drawn in each step, so that "
            "longer sequences have trained positions; 0: no shift",
            between(0, 1 << 30));
  table.check({"model.recurrence.max_position_shift", "model.position_embedding_type"},
              [&options, &positions] { return validate_offset(options, positions); });
}

StepTimingSignals::StepTimingSignals(const Scope& scope,
                                     const Options& options,
                                     const ModelBuildOptions& setting)
    : options_(options),
      wide_(accumulator_of(setting.compute)),
      device_(setting.device),
      offsets_(setting.random.child("offset")) {
  throw_if_error(validate_offset(options.signals, options.positions));
  if (options.positions.learned())
    positions_ = scope.weight("positions/weight",
                              {options.positions.longest.value_or(setting.segment), options.width},
                              options.initial);
  if (options.signals.kind == StepTimingSignalType::learned)
    steps_ = scope.weight("steps/weight", {options.steps, options.width}, options.initial);
}

Ranges StepTimingSignals::positions(const ForwardContext& pass) const {
  require(longest() == 0 || end_of(pass) <= longest(),
          "expected at most model.max_position_embeddings = {} tokens, found {}",
          longest(),
          end_of(pass));
  Ranges positions = positions_of(pass);
  const std::int64_t offsets = options_.signals.max_position_shift + 1;
  if (!pass.training || offsets == 1) return positions;
  const std::uint64_t drawn = offsets_.word(static_cast<std::uint64_t>(pass.step));
  const auto offset = static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(offsets));
  for (Range& range : positions) {
    range.begin += offset;
    range.end += offset;
  }
  return positions;
}

Variable StepTimingSignals::of(const Ranges& positions) const {
  if (positions_) return cast(table_rows(positions_->variable, positions), wide_);
  if (options_.positions.is_relative()) return {};
  const bool paper = options_.signals.order == StepSignalOptions::Order::paper;
  Ranges counted = positions;
  for (Range& range : counted) {
    range.begin += paper ? 1 : 0;
    range.end += paper ? 1 : 0;
  }
  return Variable(sinusoids(paper ? SinusoidLayout::interleaved : SinusoidLayout::halves_geometric,
                            counted,
                            options_.width,
                            -1,
                            wide_,
                            device_));
}

Variable StepTimingSignals::of_step(std::int64_t step) const {
  const Shape row = {options_.width};
  if (steps_) return reshape(cast(table_rows(steps_->variable, {{step, step + 1}}), wide_), row);
  if (options_.signals.kind == StepTimingSignalType::none) return {};
  const bool paper = options_.signals.order == StepSignalOptions::Order::paper;
  return Variable(sinusoids(paper ? SinusoidLayout::interleaved : SinusoidLayout::halves_geometric,
                            paper ? step + 1 : step,
                            1,
                            options_.width,
                            -1,
                            wide_,
                            device_)
                      .reshape(row));
}

Variable StepTimingSignals::add(const Variable& x,
                                const Variable& of_positions,
                                std::int64_t step) const {
  const Variable row = of_step(step);
  if (!of_positions.defined()) return row.defined() ? add_bias(x, row) : x;
  return scale_and_add_positions(x, 1, row.defined() ? add_bias(of_positions, row) : of_positions);
}

}  // namespace longspan
