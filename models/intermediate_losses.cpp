#include "models/intermediate_losses.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/nn/attention/kv_cache.h"

namespace longspan {
namespace {

using Inner = AuxiliaryLossOptions::Inner;
using Total = AuxiliaryLossOptions::Total;

// Returns the targets [rows, positions of `time`] of tokens `ahead` positions ahead, from
// next-token targets [rows, all positions]. The last positions of the segment have none.
Tensor further_targets(const Tensor& targets, std::int64_t ahead, const SequenceShard& time) {
  const std::int64_t rows = targets.shape()[0], whole = targets.shape()[1];
  const Ranges positions = time.inside();
  const Tensor result = Tensor::empty(
      {rows, total_count(positions)}, DType::i64, targets.device(), MemoryTag::workspace);
  dispatch_on_host(targets.device(), [&] {
    auto* to = result.data<std::int64_t>();
    for (std::int64_t row = 0; row < rows; ++row)
      for (const Range& range : positions)
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const std::int64_t place = i + ahead - 1;
          *to++ =
              place < whole ? targets.data<std::int64_t>()[row * whole + place] : ignored_target;
        }
  });
  return result;
}

std::string term_name(std::int64_t layer, bool last, std::int64_t ahead) {
  const std::string further = ahead > 1 ? fmt::format("ahead{}", ahead) : "";
  if (last) return further;
  return fmt::format("layer{}{}{}", layer, further.empty() ? "" : "_", further);
}

}  // namespace

void declare(OptionTable& table,
             AuxiliaryLossOptions& options,
             const ModelOptions& common,
             const PlannedBuildOptions& planned) {
  table.add("model.intermediate_losses.schedule",
            options.inner,
            "training losses of intermediate layers, each with its own classifier (Al-Rfou et al. "
            "2018): none, drop (one layer ends after another) or decay (also with falling weight)",
            {{"none", Inner::none}, {"drop", Inner::drop}, {"decay", Inner::decay}},
            affects_weights([](const std::string& text) -> std::string {
              return text == "none" ? "none" : "some";
            }));
  table.add("model.intermediate_losses.end_fraction",
            options.end,
            "end of the intermediate losses, as a fraction e of training: that of layer l of n "
            "ends at e l / n",
            more_than(0.0),
            at_most(1.0),
            only_with(is("model.intermediate_losses.schedule", {"drop", "decay"})));
  table.add("model.intermediate_losses.weight",
            options.weight,
            "weight of the intermediate losses relative to that of the last layer",
            at_least(0.0),
            only_with(is("model.intermediate_losses.schedule", {"drop", "decay"})));
  table.add("model.intermediate_losses.reduction",
            options.total,
            "reduction over the intermediate losses: sum, which shrinks as they end, or mean",
            {{"sum", Total::sum}, {"mean", Total::mean}},
            only_with(is("model.intermediate_losses.schedule", {"drop", "decay"})));
  table.add("model.num_future_tokens",
            options.targets,
            "number of future tokens that each position predicts in training, each with its own "
            "classifier",
            between(1, 64),
            affects_weights(),
            needs(is("run.task", {"language_modeling"})));
  table.add("model.future_token_loss_weight",
            options.target_weight,
            "weight of the losses of tokens after the next one, relative to the next one's",
            at_least(0.0),
            only_with(is_above("model.num_future_tokens", 1)));
  table.check({"model.intermediate_losses.schedule", "model.num_hidden_layers"},
              [&options, &common] { return validate_auxiliary(options, common, 0); });
  if (!planned) return;
  table.check({"model.num_future_tokens", "data.seq_length"}, [&options, &common, planned] {
    return validate_auxiliary(options, common, planned().segment);
  });
}

std::string validate_auxiliary(const AuxiliaryLossOptions& options,
                               const ModelOptions& common,
                               std::int64_t segment) {
  if (options.inner != Inner::none && common.layers == 1)
    return "model.intermediate_losses.schedule requires model.num_hidden_layers of at least 2";
  if (segment > 0 && options.targets > segment)
    return fmt::format("model.num_future_tokens: expected at most data.seq_length = {}, found {}",
                       segment,
                       options.targets);
  return "";
}

std::int64_t inner_loss_end(const AuxiliaryLossOptions& options,
                            std::int64_t layer,
                            std::int64_t layers,
                            std::int64_t steps) {
  // Compares products, which are integers where `end` is 1/2 or 1: a quotient could round to the
  // wrong step.
  const double wanted = options.end * static_cast<double>(layer) * static_cast<double>(steps);
  const auto before = [&](std::int64_t step) {
    return static_cast<double>(step) * static_cast<double>(layers) < wanted;
  };
  auto step = static_cast<std::int64_t>(wanted / static_cast<double>(layers));
  while (before(step)) ++step;
  while (step > 0 && !before(step - 1)) --step;
  return step;
}

double inner_loss_weight(const AuxiliaryLossOptions& options,
                         std::int64_t layer,
                         std::int64_t layers,
                         std::int64_t step,
                         std::int64_t steps) {
  const auto end_of = [&](std::int64_t of) { return inner_loss_end(options, of, layers, steps); };
  if (options.inner == Inner::none || step >= end_of(layer)) return 0;
  double weight = options.weight;
  if (options.inner == Inner::decay)
    weight *= 1 - static_cast<double>(step * layers) /
                      (options.end * static_cast<double>(layer) * static_cast<double>(steps));
  if (options.total == Total::sum) return weight;
  std::int64_t left = 0;
  for (std::int64_t of = 1; of < layers; ++of) left += step < end_of(of) ? 1 : 0;
  return weight / static_cast<double>(left);
}

IntermediateLosses::IntermediateLosses(const Scope& scope,
                                       const AuxiliaryLossOptions& options,
                                       const ModelOptions& common,
                                       const ModelBuildOptions& setting)
    : options_(options), common_(common), setting_(setting) {
  throw_if_error(validate_auxiliary(options, common, setting.segment));
  for (std::int64_t layer = 1; layer <= common.layers; ++layer)
    layers_.push_back(heads_of(scope.child(layer), layer));
}

IntermediateLosses::Heads IntermediateLosses::heads_of(const Scope& scope,
                                                       std::int64_t layer) const {
  const bool last = layer == common_.layers;
  Heads heads;
  if (!last && options_.inner == Inner::none) return heads;
  const LMHead::Options output = {.vocabulary = setting_.classes > 0
                                                    ? setting_.classes
                                                    : vocabulary_of(common_, setting_.vocabulary),
                                  .width = common_.output_width(),
                                  .bias = true,
                                  .cap = common_.logit_cap,
                                  .initial = common_.table_initial(),
                                  .chunks = setting_.memory.loss_chunks};
  for (std::int64_t ahead = last ? 2 : 1; ahead <= options_.targets; ++ahead)
    heads.each.push_back({ahead, LMHead(scope.child(ahead), output)});
  if (common_.has_final_norm() && !heads.each.empty())
    heads.norm.emplace(scope.child("norm"), common_.output_width(), common_.norm_form());
  if (!last) scope.read_for(inner_loss_end(options_, layer, common_.layers, setting_.steps));
  return heads;
}

namespace {

bool is_needed(const ForwardContext& pass) {
  return pass.training && !(pass.kv_cache && pass.kv_cache->is_state_pass());
}

}  // namespace

LayerRecorder IntermediateLosses::watch(const ModelInput& reading,
                                        const ForwardContext& pass,
                                        std::vector<LossTerm>& terms) const {
  if (!is_needed(pass)) return {};
  std::vector<double> weights;
  for (std::int64_t layer = 1; layer < common_.layers; ++layer)
    weights.push_back(
        inner_loss_weight(options_, layer, common_.layers, pass.step, setting_.steps));
  // Without an active intermediate loss nothing is recorded or stored.
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) return {};
  LayerRecorder watch;
  watch.output = [this, weights, &reading, pass, &terms](std::size_t place,
                                                         const Variable& output) {
    if (place < weights.size() && weights[place] > 0)
      add_terms(static_cast<std::int64_t>(place) + 1, weights[place], output, reading, pass, terms);
  };
  return watch;
}

void IntermediateLosses::add_last(const Variable& hidden,
                                  const ModelInput& reading,
                                  const ForwardContext& pass,
                                  std::vector<LossTerm>& terms) const {
  if (is_needed(pass) && options_.target_weight > 0)
    add_terms(common_.layers, 1, hidden, reading, pass, terms);
}

void IntermediateLosses::add_terms(std::int64_t layer,
                                   double weight,
                                   const Variable& output,
                                   const ModelInput& reading,
                                   const ForwardContext& pass,
                                   std::vector<LossTerm>& terms) const {
  const Heads& heads = layers_[static_cast<std::size_t>(layer - 1)];
  if (heads.each.empty()) return;
  const ForwardContext own = pass.child("inner").child(static_cast<std::uint64_t>(layer));
  const Variable states = heads.norm ? (*heads.norm)(output, own, {}) : output;
  const std::int64_t whole = reading.time();
  for (const Head& head : heads.each) {
    const std::int64_t known = whole - (head.ahead - 1);
    if (known <= 0 || (head.ahead > 1 && options_.target_weight == 0)) continue;
    const Tensor targets =
        further_targets(field_of(reading.fields, "targets"), head.ahead, pass.time);
    const Variable losses = head.output.losses(
        states, copy_async(targets, setting_.device), pass.time, setting_.smoothing);
    // The batch count includes positions without a target.
    const double share = static_cast<double>(whole) / static_cast<double>(known);
    terms.push_back({.name = term_name(layer, layer == common_.layers, head.ahead),
                     .values = head.ahead == 1 ? losses : multiply_scalar(losses, share),
                     .count = "tokens",
                     .weight = weight * (head.ahead == 1 ? 1.0 : options_.target_weight)});
  }
}

}  // namespace longspan
