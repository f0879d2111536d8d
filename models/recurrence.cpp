#include "models/recurrence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/async_copy.h"
#include "framework/kernels/halting.h"
#include "framework/modeling/sequence_parallel.h"

namespace longspan {
namespace {

void declare_halting(OptionTable& table, RecurrenceOptions& options) {
  ActOptions& halting = options.halting;
  table.add("model.recurrence.num_steps",
            halting.steps,
            "number of recurrent steps; the maximum with model.recurrence.type: act",
            between(1, 1 << 12),
            affects_weights([&options](const std::string& steps) {
              const bool has_rows =
                  options.is_recurrent() && options.signals.kind == StepTimingSignalType::learned;
              return has_rows ? steps : "";
            }));
  table.add(
      "model.act.epsilon",
      halting.slack,
      "halting threshold: a position halts where its halting probabilities sum to 1 - epsilon",
      more_than(0.0),
      less_than(1.0),
      only_with(is("model.recurrence.type", {"act"})));
  table.add("model.act.halting_bias_init",
            halting.bias,
            "initial bias of the halting logit, larger values for fewer steps",
            only_with(is("model.recurrence.type", {"act"})));
  table.add(
      "model.act.halting_input",
      halting.reads,
      "state that gives the halting probability of a step: state_after (Graves 2016) or "
      "state_before (tensor2tensor)",
      {{"state_after", ActOptions::Reads::after}, {"state_before", ActOptions::Reads::before}},
      only_with(is("model.recurrence.type", {"act"})));
  table.add("model.act.output",
            halting.output,
            "output state: mean (weighted by the halting probabilities, Graves 2016), interpolated "
            "(step by step, tensor2tensor) or last",
            {{"mean", ActOptions::Output::mean},
             {"interpolated", ActOptions::Output::interpolated},
             {"last", ActOptions::Output::last}},
            only_with(is("model.recurrence.type", {"act"})));
  table.add("model.act.freeze_halted",
            halting.freeze,
            "constant state of halted positions, for other positions to attend to; false: it keeps "
            "changing (tensor2tensor)",
            only_with(is("model.recurrence.type", {"act"})));
  table.add("model.act.skip_halted",
            halting.compaction,
            "computation of a step's last layer for running positions only, with the same result; "
            "no effect with model.cross_attention.score_function: location",
            only_with(is("model.recurrence.type", {"act"})));
  table.warn("model.act.skip_halted", [&options]() -> std::string {
    if (options.adaptive() && options.convolves())
      return "model.recurrence.transition is separable_convolution, so all positions are computed";
    if (!options.adaptive() || options.halting.freeze) return "";
    return "model.act.freeze_halted is false, so all positions are computed";
  });
  table.add("model.act.use_final_remainder",
            halting.remainder_at_end,
            "remainder of the weight on the last state of positions that reach "
            "model.recurrence.num_steps (Graves 2016); false: no remainder (tensor2tensor)",
            only_with(is("model.recurrence.type", {"act"})));
  table.add("model.act.loss_weight",
            options.ponder_weight,
            "weight of the ponder cost, the mean of steps and remainders",
            at_least(0.0),
            only_with(is("model.recurrence.type", {"act"})));
}

void declare_transition(OptionTable& table, RecurrenceOptions& options) {
  table.add("model.recurrence.transition",
            options.transition,
            "function of a layer after its attention: feed_forward, or separable_convolution (two "
            "depthwise-separable convolutions with model.intermediate_size features between them, "
            "centered in bidirectional stacks)",
            {{"feed_forward", Transition::feed_forward},
             {"separable_convolution", Transition::separable_convolution}},
            affects_weights(),
            value_excludes("separable_convolution", is_above("memory.num_feed_forward_chunks", 1)));
  table.add("model.recurrence.kernel_sizes",
            options.kernel_sizes,
            "kernel sizes of the two convolutions in positions, odd",
            between(1, 255),
            affects_weights(),
            only_with(is("model.recurrence.transition", {"separable_convolution"})));
}

// Returns why the transition is unsupported; empty if it is supported.
std::string validate_transition(const RecurrenceOptions& options, const ModelOptions& common) {
  if (!options.convolves()) return "";
  if (!common.has_feed_forward())
    return "model.recurrence.transition: separable_convolution requires model.intermediate_size "
           "above 0";
  const std::vector<std::int64_t>& sizes = options.kernel_sizes;
  if (sizes.size() != 2 ||
      std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1 || size % 2 == 0; }))
    return fmt::format("model.recurrence.kernel_sizes: expected 2 odd numbers, found [{}]",
                       fmt::join(sizes, ", "));
  if (common.gated())
    return "model.activation: gated activations cannot be combined with "
           "model.recurrence.transition: separable_convolution; set it to relu, gelu, gelu_tanh or "
           "silu";
  return "";
}

// Returns 1 at this rank's positions of `time` that are not padding, [rows, positions] u8;
// undefined if the context has no padding.
Tensor real_positions(const AttentionContext& context, const SequenceShard& time) {
  const Tensor& length = context.mask.key_length;
  if (!length.defined()) return {};
  const Ranges held = time.outside();
  const Device& device = length.device();
  const std::int64_t rows = length.elements(), columns = total_count(held);
  const Tensor real =
      Tensor::empty({rows, columns}, DType::u8, device.host(), MemoryTag::workspace);
  if (!device.state().is_meta()) {
    const Tensor here = length.to_host();
    std::uint8_t* to = real.data<std::uint8_t>();
    for (const std::int64_t end : here.span<std::int64_t>())
      for (const Range& range : held)
        for (std::int64_t i = range.begin; i < range.end; ++i)
          *to++ = i < end ? Halting::running : Halting::rests;
  }
  return copy_async(real, device);
}

// Returns the steps of this context rank's positions, by position in the sequence. Padding took no
// steps and does not count as a row.
std::vector<AuxiliaryMetric::At> by_position(const ActResult& pondered, const ProcessMesh& mesh) {
  if (pondered.time.total == 0) return {};
  const std::int64_t total = pondered.time.total;
  const Tensor sums = Tensor::zeros({2, total}, DType::f64, Device::cpu(), MemoryTag::workspace);
  double* const steps = sums.data<double>();
  for (auto each = pondered.each.begin(); each != pondered.each.end();)
    for (const Range& range : pondered.time.outside())
      for (std::int64_t i = range.begin; i < range.end; ++i, ++each) {
        steps[i] += static_cast<double>(*each);
        steps[total + i] += *each > 0 ? 1 : 0;
      }
  if (mesh.shape.sequence) mesh.tensor.all_reduce(sums, Reduction::sum);
  std::vector<AuxiliaryMetric::At> at;
  for (std::int64_t i = 0; i < total; ++i) at.push_back({steps[i], steps[total + i]});
  return at;
}

// Returns the layers with the last one restricted to the active rows, for outputs that are read
// only there. Its keys cover all rows.
std::vector<Layer> of_taken(const std::vector<Layer>& layers,
                            const std::shared_ptr<const ActiveRows>& taken) {
  std::vector<Layer> result = layers;
  for (Sublayer& sublayer : result.back().sublayers)
    sublayer.run = [taken, run = sublayer.run](
                       const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
      ForwardContext some = pass;
      some.active_rows = taken;
      return run(x, reads, some);
    };
  return result;
}

}  // namespace

void declare(OptionTable& table, RecurrenceOptions& options, const PositionOptions& positions) {
  declare(table, options.signals, positions);
  declare_transition(table, options);
  declare_halting(table, options);
  for (const char* const key : {"model.recurrence.num_steps",
                                "model.recurrence.transition",
                                "model.recurrence.step_timing_signal",
                                "model.recurrence.timing_signal_layout",
                                "model.recurrence.max_position_shift"})
    table.add_rule(key, only_with(is_not("model.recurrence.type", "none")));
}

void declare_recurrence(OptionTable& table,
                        RecurrenceOptions& options,
                        const PositionOptions& positions) {
  table.add("model.recurrence.type",
            options.count,
            "recurrence over depth (Dehghani et al. 2019): none, fixed "
            "(model.recurrence.num_steps for all positions) or act (adaptive computation time per "
            "position, Graves 2016). Plans and FLOPs count all steps",
            {{"none", RecurrenceType::none},
             {"fixed", RecurrenceType::fixed},
             {"act", RecurrenceType::adaptive}},
            affects_weights());
  declare(table, options, positions);
}

std::string validate_recurrence(const RecurrenceOptions& options, const ModelOptions& common) {
  if (std::string problem = validate_transition(options, common); !problem.empty()) return problem;
  if (!options.adaptive()) return "";
  if (common.residual == ResidualKind::reversible)
    return "model.residual.type: reversible cannot be combined with model.recurrence.type: act; "
           "change one of them";
  if (options.halting.output == ActOptions::Output::last && !options.halting.freeze)
    return "model.act.output: last cannot be combined with model.act.freeze_halted: false; change "
           "one of them";
  if (has_kind(common.attention, "routing"))
    return "model.attention.layer_types: routing cannot be combined with model.recurrence.type: "
           "act; change one of them";
  if (common.norm_kind == NormKind::power)
    return "model.norm.type: powernorm cannot be combined with model.recurrence.type: act; change "
           "one of them";
  return "";
}

std::vector<std::string> recurrence_keys() {
  return {"model.residual.type",
          "model.recurrence.type",
          "model.recurrence.transition",
          "model.recurrence.kernel_sizes",
          "model.activation",
          "model.act.output",
          "model.act.freeze_halted",
          "model.attention.layer_types",
          "model.norm.type"};
}

PositionOptions positions_of_embedding(const PositionOptions& positions,
                                       const RecurrenceOptions& recurrence) {
  PositionOptions options = positions;
  // Relative positions add nothing to embeddings.
  if (recurrence.is_recurrent()) options.kind = PositionEmbeddingType::alibi;
  return options;
}

void add_ponder_loss(const ActResult& pondered,
                     double weight,
                     const PonderedNames& names,
                     const ProcessMesh& mesh,
                     BackboneOutput& states) {
  states.terms.push_back({.name = names.prefix + "ponder_cost",
                          .values = sequence_losses(sum(pondered.costs), mesh),
                          .count = names.count,
                          .weight = weight});
  const std::int64_t taken =
      mesh.shape.sequence ? mesh.tensor.all_reduce(pondered.taken, Reduction::sum) : pondered.taken;
  states.watched.push_back({.name = names.prefix + "act_steps",
                            .sum = static_cast<double>(taken),
                            .largest = static_cast<double>(pondered.steps.size()),
                            .count = names.count,
                            .at = by_position(pondered, mesh)});
}

Batch counted(Batch batch, const std::string& lengths, const std::string& count) {
  const Tensor& length = batch.field(lengths);
  std::int64_t total = length.elements();
  if (!length.device().state().is_meta()) {
    const Tensor here = length.to_host();
    total = 0;
    for (const std::int64_t each : here.span<std::int64_t>()) total += each;
  }
  batch.counts[count] = total;
  return batch;
}

Recurrence::Recurrence(const Scope& scope, const Options& options, const ModelBuildOptions& setting)
    : options_(options),
      signals_(scope,
               {.signals = options.recurrence.signals,
                .positions = options.positions,
                .width = options.width,
                .steps = options.recurrence.halting.steps,
                .initial = options.initial},
               setting) {
  if (!options.recurrence.adaptive()) return;
  ActOptions halting = options.recurrence.halting;
  // Convolutions of running positions read the states of halted ones.
  if (options.recurrence.convolves()) halting.compaction = false;
  halting_.emplace(scope.child("halting"), options.width, halting);
}

// Returns the layers unrolled over the steps. Both reversible streams run through them without
// merging in between, and the first sublayer of each step adds the timing signals.
std::vector<Layer> Recurrence::unrolled(const std::vector<Layer>& layers,
                                        const ForwardContext& pass) const {
  std::vector<Layer> all;
  for (std::int64_t step = 0; step < options_.recurrence.halting.steps; ++step) {
    const std::size_t first = all.size();
    all.insert(all.end(), layers.begin(), layers.end());
    Sublayer& receives = all[first].sublayers.front();
    receives.run =
        [this, step, run = receives.run, positions = signals_.positions(pass)](
            const Variable& x, const SublayerInputs& reads, const ForwardContext& inner) {
          return run(signals_.add(x, signals_.of(positions), step), reads, inner);
        };
  }
  return all;
}

Variable Recurrence::run(const std::vector<Layer>& layers,
                         const Residual& residual,
                         const Variable& x,
                         const StackInputs& reads,
                         const ForwardContext& pass,
                         const LayerRecorder& watch,
                         const GivePondered& give) const {
  const std::int64_t count = options_.recurrence.halting.steps;
  const ForwardContext steps = pass.child("steps");
  if (options_.reversible) {
    LayerRecorder of_last = watch;
    of_last.side.layer += static_cast<std::size_t>(count - 1) * layers.size();
    return residual.run(unrolled(layers, pass), x, reads, steps, of_last);
  }
  const Variable positions = signals_.of(signals_.positions(pass));
  const RecurrentBlock block = {
      .read = [&](const Variable& states, std::int64_t step) -> Variable {
        return signals_.add(states, positions, step);
      },
      .run = [&](const Variable& read,
                 std::int64_t step,
                 const std::shared_ptr<const ActiveRows>& taken) -> Variable {
        const bool shows = !halting_ && step + 1 == count;
        return residual.run(taken ? of_taken(layers, taken) : layers,
                            read,
                            reads,
                            steps.child(static_cast<std::uint64_t>(step)),
                            shows ? watch : LayerRecorder());
      }};
  if (halting_) {
    const ActResult pondered =
        (*halting_)(x, block, real_positions(reads.context, pass.time), pass);
    if (give) give(pondered);
    return pondered.states;
  }
  Variable states = x;
  for (std::int64_t step = 0; step < count; ++step)
    states = block.run(block.read(states, step), step, nullptr);
  return states;
}

}  // namespace longspan
