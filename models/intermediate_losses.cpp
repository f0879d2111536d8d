#include "models/intermediate_losses.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/scaled.h"

namespace longspan {
namespace {

using Inner = AuxiliaryLossOptions::Inner;
using Total = AuxiliaryLossOptions::Total;

// targets: [rows, time], of the next tokens. Those of the tokens `ahead` positions on, which the
// segment has not of its last positions.
Tensor further_targets(const Tensor& targets, std::int64_t ahead) {
  if (ahead == 1) return targets;
  const std::int64_t rows = targets.shape()[0], time = targets.shape()[1];
  const std::int64_t skipped = std::min(ahead - 1, time);
  const Tensor result =
      Tensor::empty(targets.shape(), DType::i64, targets.device(), MemoryTag::workspace);
  dispatch_on_host(targets.device(), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t* const from = targets.data<std::int64_t>() + row * time;
      std::int64_t* const to = result.data<std::int64_t>() + row * time;
      std::copy(from + skipped, from + time, to);
      std::fill_n(to + time - skipped, skipped, ignored_target);
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
            "whether inner layers predict too, each with a classifier of its own, in training: not "
            "at all; until they end one after another (drop); or so and less and less (decay) "
            "(Al-Rfou et al. 2018)",
            {{"none", Inner::none}, {"drop", Inner::drop}, {"decay", Inner::decay}},
            affects_weights([](const std::string& text) -> std::string {
              return text == "none" ? "none" : "some";
            }));
  table.add("model.intermediate_losses.end_fraction",
            options.end,
            "the loss of layer l of n ends after this part of training x l / n",
            more_than(0.0),
            at_most(1.0));
  table.add("model.intermediate_losses.weight",
            options.weight,
            "of the inner layers' losses beside the last one's",
            at_least(0.0));
  table.add("model.intermediate_losses.reduction",
            options.total,
            "inner losses count as their sum, which shrinks as they end, or as their mean",
            {{"sum", Total::sum}, {"mean", Total::mean}});
  table.add("model.num_future_tokens",
            options.targets,
            "how many tokens ahead each position predicts in training, each with a classifier of "
            "its own",
            between(1, 64),
            affects_weights());
  table.add("model.future_token_loss_weight",
            options.target_weight,
            "of the losses of tokens behind the next one, beside that one's",
            at_least(0.0));
  for (const std::string key : {"end_fraction", "weight", "reduction"})
    table.warn("model.intermediate_losses." + key, [&options]() -> std::string {
      return options.inner == Inner::none ? "model.intermediate_losses.schedule is none" : "";
    });
  table.warn("model.future_token_loss_weight", [&options]() -> std::string {
    return options.targets == 1 ? "model.num_future_tokens is 1" : "";
  });
  table.check({"model.intermediate_losses.schedule", "model.num_hidden_layers"},
              [&options, &common] { return auxiliary_problem(options, common, 0); });
  if (!planned) return;
  table.check({"model.num_future_tokens", "data.seq_length"}, [&options, &common, planned] {
    return auxiliary_problem(options, common, planned().segment);
  });
}

std::string auxiliary_problem(const AuxiliaryLossOptions& options,
                              const ModelOptions& common,
                              std::int64_t segment) {
  if (options.inner != Inner::none && common.layers == 1)
    return "model.intermediate_losses.schedule is set and model.num_hidden_layers is 1; an inner "
           "layer needs another one "
           "behind it";
  if (segment > 0 && options.targets > segment)
    return fmt::format(
        "model.num_future_tokens is {}, wanted at most data.seq_length = {}: no position of a "
        "segment has a "
        "token so far ahead",
        options.targets,
        segment);
  return "";
}

std::int64_t inner_loss_end(const AuxiliaryLossOptions& options,
                            std::int64_t layer,
                            std::int64_t layers,
                            std::int64_t steps) {
  // Compared as products, which are whole numbers where `end` is 1/2 or 1: a quotient may be
  // rounded to the wrong step.
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
  throw_if_error(auxiliary_problem(options, common, setting.segment));
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

LayerRecorder IntermediateLosses::watch(const ModelInput& reading,
                                        const ForwardContext& pass,
                                        std::vector<LossTerm>& terms) const {
  if (!pass.training) return {};
  std::vector<double> weights;
  for (std::int64_t layer = 1; layer < common_.layers; ++layer)
    weights.push_back(
        inner_loss_weight(options_, layer, common_.layers, pass.step, setting_.steps));
  // Where no inner layer has a loss any more, nothing is shown, and nothing kept for it.
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
  if (pass.training && options_.target_weight > 0)
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
    const ModelInput further = {
        .fields = {{"targets", further_targets(field_of(reading.fields, "targets"), head.ahead)}}};
    const Variable losses =
        head.output.losses(states,
                           columns_of(further, "targets", pass.time, setting_.device),
                           pass.time,
                           setting_.smoothing);
    // The count of the batch has the positions without a target too.
    const double share = static_cast<double>(whole) / static_cast<double>(known);
    terms.push_back({.name = term_name(layer, layer == common_.layers, head.ahead),
                     .values = head.ahead == 1 ? losses : multiply_scalar(losses, share),
                     .count = "tokens",
                     .weight = weight * (head.ahead == 1 ? 1.0 : options_.target_weight)});
  }
}

}  // namespace longspan
