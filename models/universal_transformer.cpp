#include "models/universal_transformer.h"

#include <cmath>

#include "framework/model/shared_time.h"
#include "framework/model/vocabulary_readout.h"
#include "framework/nn/embedding.h"
#include "models/mechanisms.h"
#include "models/stack.h"

namespace longspan {
namespace {

class UniversalTransformer : public Body {
 public:
  UniversalTransformer(const Scope& scope,
                       const UniversalTransformerOptions& options,
                       const ModelSetting& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        signals_(scope,
                 {.signals = options.signals,
                  .positions = options.positions,
                  .width = options.common.width,
                  .steps = options.halting.steps,
                  .initial = options.common.table_initial()},
                 setting),
        block_(make_layers(scope.child("block"),
                           {.common = options.common, .memory = setting.memory},
                           mechanisms(options.common, options.positions, {}, setting.segment))),
        residual_(make_residual(options.common, setting.memory)) {
    if (options.adaptive())
      halting_.emplace(scope.child("halting"), options.common.width, options.halting);
  }

  States run(const Reading& reading, const Pass& pass) const override {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, setting_.device);
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    const Variable x = drop(
        embedding_(tokens, scale, pass.time), options_.common.dropout, pass.child("embedding"));
    States states = {.hidden = {}, .time = pass.time};
    if (halting_) {
      add_pondered(x, pass, states);
    } else if (options_.common.residual == ResidualKind::reversible) {
      states.hidden = residual_->run(unrolled(pass), x, {}, pass.child("steps"));
    } else {
      const StepBlock block = block_of(pass);
      states.hidden = x;
      for (std::int64_t step = 0; step < options_.halting.steps; ++step)
        states.hidden = block.run(block.read(states.hidden, step), step);
    }
    return states;
  }

  BodyEnd end() const override {
    BodyEnd end = body_end(options_.common);
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  bool reads_on() const override { return longspan::reads_on(options_.common.attention); }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t longest_segment() const override { return signals_.longest(); }

 private:
  StepBlock block_of(const Pass& pass) const {
    const Variable positions = signals_.of(signals_.positions(pass));
    return {.read = [this, positions](const Variable& states, std::int64_t step) -> Variable {
              return signals_.add(states, positions, step);
            },
            .run = [this, steps = pass.child("steps")](const Variable& read, std::int64_t step)
                -> Variable { return residual_->run(block_, read, {}, steps.child(step)); }};
  }

  // The layers one after another, as often as there are steps: two streams run through them without
  // a joint in between, and the first sublayer of each step hears the signals.
  std::vector<Layer> unrolled(const Pass& pass) const {
    std::vector<Layer> layers;
    for (std::int64_t step = 0; step < options_.halting.steps; ++step) {
      const std::size_t first = layers.size();
      layers.insert(layers.end(), block_.begin(), block_.end());
      Sublayer& hears = layers[first].sublayers.front();
      hears.run = [this, step, run = hears.run, positions = signals_.positions(pass)](
                      const Variable& x, const SublayerReads& reads, const Pass& inner) {
        return run(signals_.add(x, signals_.of(positions), step), reads, inner);
      };
    }
    return layers;
  }

  void add_pondered(const Variable& x, const Pass& pass, States& states) const {
    Pondered pondered = (*halting_)(x, block_of(pass), {}, pass);
    states.hidden = std::move(pondered.states);
    states.terms.push_back({.name = "pondering",
                            .values = losses_of_time(sum(pondered.costs), setting_.mesh),
                            .count = "tokens",
                            .weight = options_.ponder_weight});
    const bool shared = setting_.mesh.shape.sequence;
    const std::int64_t taken =
        shared ? setting_.mesh.tensor.all_reduce(pondered.taken, Reduction::sum) : pondered.taken;
    states.watched.push_back({.name = "steps",
                              .sum = static_cast<double>(taken),
                              .largest = static_cast<double>(pondered.steps.size()),
                              .count = "tokens"});
  }

  UniversalTransformerOptions options_;
  ModelSetting setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  StepSignals signals_;
  std::vector<Layer> block_;
  std::unique_ptr<Residual> residual_;
  std::optional<AdaptiveSteps> halting_;
};

std::string halting_problem(const UniversalTransformerOptions& options) {
  if (!options.adaptive()) return "";
  if (options.common.residual == ResidualKind::reversible)
    return "model.residual: found reversible with model.halting adaptive, whose output is made of "
           "the states of all steps, which would have to be kept; set one of them otherwise";
  if (options.halting.output == HaltingOptions::Output::last && !options.halting.freeze)
    return "model.halting_output: found last with model.halting_freezes false, where the last "
           "state of a token is that of the step in which all others have halted too; set one of "
           "them otherwise";
  if (has_kind(options.common.attention, "routing"))
    return "model.attention: found routing with model.halting adaptive, where clusters would "
           "follow the tokens of as many steps as the slowest one takes; set one of them otherwise";
  return "";
}

void declare_halting(OptionTable& table, UniversalTransformerOptions& options) {
  HaltingOptions& halting = options.halting;
  table.add("model.steps",
            halting.steps,
            "how often the layers run; with model.halting adaptive, at most",
            between(1, 1 << 12),
            fixes_weights([&options](const std::string& steps) {
              return options.signals.kind == StepSignalKind::learned ? steps : "";
            }));
  table.add(
      "model.halting",
      options.count,
      "whether all positions take model.steps, or each as many as it needs (Graves 2016); plans "
      "and the operations that a run counts are those of all steps",
      {{"fixed", StepCount::fixed}, {"adaptive", StepCount::adaptive}},
      fixes_weights());
  table.add("model.halting_slack",
            halting.slack,
            "a position halts where its halting probabilities sum to 1 less this",
            more_than(0.0),
            less_than(1.0));
  table.add("model.halting_bias",
            halting.bias,
            "of the logit of the halting probability, at first: the larger, the fewer steps");
  table.add("model.halting_reads",
            halting.reads,
            "whether a step's probability is read of the state after it (Graves) or of what its "
            "layers read (tensor2tensor)",
            {{"after", HaltingOptions::Reads::after}, {"before", HaltingOptions::Reads::before}});
  table.add("model.halting_output",
            halting.output,
            "the mean of the states by their probabilities (Graves), the output so far and the new "
            "state interpolated step after step (tensor2tensor), or the last state",
            {{"mean", HaltingOptions::Output::mean},
             {"interpolated", HaltingOptions::Output::interpolated},
             {"last", HaltingOptions::Output::last}});
  table.add("model.halting_freezes",
            halting.freeze,
            "the state of a position that halted stays as it is, for others to look at; false: it "
            "goes on (tensor2tensor)");
  table.add("model.halting_remainder",
            halting.remainder_at_end,
            "a position that model.steps stops has the remainder of its weight at its last state "
            "(Graves); false: none (tensor2tensor)");
  table.add("model.ponder_weight",
            options.ponder_weight,
            "of the mean of steps and remainders in the loss: the price of a step",
            at_least(0.0));
  for (const char* const key : {"model.halting_slack",
                                "model.halting_bias",
                                "model.halting_reads",
                                "model.halting_output",
                                "model.halting_freezes",
                                "model.halting_remainder",
                                "model.ponder_weight"})
    table.warn(key, [&options]() -> std::string {
      return options.adaptive() ? "" : "model.halting is not adaptive";
    });
}

}  // namespace

void declare(OptionTable& table,
             UniversalTransformerOptions& options,
             const PlannedSetting& planned) {
  declare(table, options.common, planned);
  declare(table, options.positions, options.common, Sequences::segments, planned);
  declare(table, options.signals, options.positions);
  declare_halting(table, options);
  table.check({"model.residual",
               "model.halting",
               "model.halting_output",
               "model.halting_freezes",
               "model.attention"},
              [&options] { return halting_problem(options); });
}

BodyFactory universal_transformer_body(const UniversalTransformerOptions& options) {
  return [options](const Scope& scope, const ModelSetting& setting) {
    refuse(
        positions_problem(options.positions, options.common, Sequences::segments, setting.segment));
    refuse(halting_problem(options));
    return std::make_unique<UniversalTransformer>(scope, options, setting);
  };
}

std::unique_ptr<Model> make_universal_transformer(const UniversalTransformerOptions& options,
                                                  const ModelSetting& setting) {
  return std::make_unique<Model>(
      setting, universal_transformer_body(options), vocabulary_readout());
}

Family universal_transformer_family() {
  return {
      "universal_transformer",
      "causal language model whose layers run several times, a fixed number or as often as each "
      "position needs (Dehghani et al. 2019)",
      {"language_model"},
      [](OptionTable& table, const PlannedSetting& planned) -> BodyFactory {
        const auto options = std::make_shared<UniversalTransformerOptions>();
        declare(table, *options, planned);
        return [options](const Scope& scope, const ModelSetting& setting) {
          return universal_transformer_body(*options)(scope, setting);
        };
      }};
}

}  // namespace longspan
