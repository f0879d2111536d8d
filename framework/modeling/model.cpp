#include "framework/modeling/model.h"

#include <algorithm>
#include <iterator>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"
#include "framework/modeling/argmax.h"
#include "framework/modeling/refinement.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/forward_context.h"

namespace longspan {

Model::Model(const ModelBuildOptions& setting,
             const BackboneFactory& body,
             const OutputHeadFactory& readout)
    : parameters_(std::make_unique<Parameters>(setting.device,
                                               setting.compute,
                                               setting.mesh,
                                               setting.sharing,
                                               setting.separate_masters,
                                               setting.tuning)),
      sampling_(setting.sampling),
      bptt_chunk_length_(setting.memory.bptt_chunk_length) {
  throw_if_error(problem_of(sampling_));
  const Scope scope(*parameters_);
  body_ = body(scope, setting);
  readout_ = readout(scope, *body_, setting);
  if (const std::string whole = body_->whole_sequence_setting();
      bptt_chunk_length_ && !whole.empty())
    throw ConfigurationError(
        "memory.bptt_chunk_length: {} cannot be combined with {}, which requires whole sequences; "
        "set it to none",
        *bptt_chunk_length_,
        whole);
  if (bptt_chunk_length_ && sampling_.mixing != ScheduledSamplingMethod::none)
    throw ConfigurationError(
        "memory.bptt_chunk_length: {} cannot be combined with scheduled sampling, which predicts "
        "whole sequences; set it to none",
        *bptt_chunk_length_);
  if (bptt_chunk_length_ && !parameters_->power_statistics().empty())
    throw ConfigurationError(
        "memory.bptt_chunk_length: {} cannot be combined with model.norm.type: powernorm, whose "
        "statistics cover whole sequences; set it to none",
        *bptt_chunk_length_);
  const OutputHeadSpec end = body_->end();
  if (end.norm) final_norm_.emplace(scope.child("final_norm"), end.width, end.norm_form, *end.norm);
  dropout_ = end.dropout;
  masked_ = end.masked;
  check_patterns_match(*parameters_);
  parameters_->allocate(setting.random);
}

namespace {

// Sums terms of equal names, which cover the same positions.
void add_losses(Losses& sum, Losses&& more) {
  if (sum.terms.empty()) {
    sum = std::move(more);
    return;
  }
  for (LossTerm& term : more.terms) {
    const auto same = std::ranges::find(sum.terms, term.name, &LossTerm::name);
    require(same != sum.terms.end(), "the first pass has no loss term `{}`", term.name);
    same->values = add(same->values, term.values);
  }
}

// Returns the recurrent state after the last chunk of a sequence; empty before that chunk.
RecurrentState states_after(const SequenceStates& states) {
  RecurrentState result = {.tensors = {}, .all = 0};
  for (const auto& [name, state] : states.after) result.tensors.push_back({name, state->value});
  return result;
}

}  // namespace

BackboneOutput Model::read(const ModelInput& reading, const ForwardContext& pass) const {
  const ProcessMesh& mesh = parameters().mesh();
  ForwardContext divided = pass;
  const std::int64_t time = body_->time_of(reading);
  if (!pass.kv_cache)
    divided.time = shard_sequence(mesh, time);
  else if (const auto& sequence = pass.kv_cache->sequence())
    divided.time = shard_chunk(mesh, *sequence, pass.kv_cache->chunk());
  else
    divided.time = replicate_sequence(time);
  divided.memory = shard_memory(mesh, reading.carried.length());
  BackboneOutput states = body_->run(reading, divided);
  if (pass.kv_cache) pass.kv_cache->advance(time);
  divided.time = states.time;
  if (final_norm_) states.hidden = (*final_norm_)(states.hidden, divided.child("final_norm"), {});
  states.hidden = drop(states.hidden, dropout_, divided.child("output"));
  if (pass.kv_cache && pass.kv_cache->states())
    states.carried = states_after(*pass.kv_cache->states());
  if (!states.carried.tensors.empty() && !states.carried.all)
    states.carried.all =
        std::min(reading.max_mem_len + reading.extra_context, reading.carried.length() + time);
  return states;
}

Losses Model::losses(const ModelInput& given, const ForwardContext& pass) const {
  if (pass.training && masked_ && masked_->masking == NatObjective::refined)
    return refined_losses(given, pass);
  const bool mixes = pass.training && sampling_.mixing != ScheduledSamplingMethod::none;
  const ModelInput reading = mixes ? mix_in_predictions(sampling_, *this, given, pass) : given;
  Losses result = losses_of(read(reading, pass), reading, pass);
  if (pass.layer_losses)
    for (const auto& [name, sum] : pass.layer_losses->sums())
      result.terms.push_back({.name = name,
                              .values = reduce_from_tensor_parallel_region(
                                  Variable(sum.total), parameters().mesh().tensor),
                              .count = "",
                              .weight = sum.weight});
  return result;
}

Losses Model::losses_of(BackboneOutput&& states,
                        const ModelInput& reading,
                        const ForwardContext& pass) const {
  std::vector<LossTerm> terms = readout_->losses(states, reading, pass);
  std::ranges::move(states.terms, std::back_inserter(terms));
  return {std::move(terms), std::move(states.carried), std::move(states.watched)};
}

Losses Model::refined_losses(const ModelInput& given, const ForwardContext& pass) const {
  const bool dry = parameters().device().state().is_meta();
  const RefinementPasses passes = refined_passes(*masked_, pass, dry);
  ModelInput reading = given;
  Losses result;
  for (std::int64_t round = 0; round <= passes.last; ++round) {
    ForwardContext here =
        round == 0 ? pass : pass.child("refined").child(static_cast<std::uint64_t>(round));
    std::optional<NoGradGuard> unrecorded;
    if (round < passes.first_learnt) {
      unrecorded.emplace();
      here.reconstruction = nullptr;
      here.layer_losses = nullptr;
      here.updates_statistics = false;
    }
    // Passes with a gradient encode the source again, since earlier encodings have none.
    if (round == passes.first_learnt) reading.encoder_outputs.clear();
    BackboneOutput states = read(reading, here);
    if (!states.encoder_outputs.empty()) reading.encoder_outputs = states.encoder_outputs;
    Tensor next;
    if (round < passes.last) {
      const NoGradGuard of_words;
      const Tensor scores = readout_->scores(states, reading, here).value();
      if (!dry)
        next = next_refinement_input(
            *masked_,
            reading,
            argmax_tokens(
                scores, reading.time(), readout_->part(), parameters().mesh(), masked_->mask)
                .ids,
            here);
    }
    if (!unrecorded) add_losses(result, losses_of(std::move(states), reading, here));
    if (next.defined()) reading.fields["tokens"] = next;
  }
  return result;
}

ChunkedSequence Model::chunked(const ModelInput& reading) const {
  const std::int64_t time = body_->time_of(reading);
  return {.memory = reading.carried.length(),
          .total = time,
          .chunk_length = bptt_chunk_length_.value_or(std::max<std::int64_t>(time, 1))};
}

std::shared_ptr<KVCache> Model::sequence_cache(const ModelInput& reading, bool trains) const {
  const ChunkedSequence sequence = chunked(reading);
  if (!body_->is_stateful())
    return sequence.count() > 1 ? std::make_shared<KVCache>(sequence, trains) : nullptr;
  auto states = std::make_shared<SequenceStates>();
  for (const RecurrentStateTensor& state : reading.carried.tensors)
    states->before[state.name] = state.tensor;
  return std::make_shared<KVCache>(sequence, trains, std::move(states));
}

void Model::compute_states(const ModelInput& reading, const ForwardContext& given) const {
  const NoGradGuard unrecorded;
  ForwardContext pass = given;
  pass.updates_statistics = false;
  pass.reconstruction = nullptr;
  pass.layer_losses = nullptr;
  static_cast<void>(read(reading, pass));
}

Predictions Model::predict(const ModelInput& reading, const ForwardContext& pass) const {
  const NoGradGuard unrecorded;
  BackboneOutput states = read(reading, pass);
  std::vector<LossTerm> terms = readout_->losses(states, reading, pass);
  Tensor choices = readout_->predictions(states, reading, pass);
  return {std::move(terms),
          std::move(choices),
          std::move(states.carried),
          std::move(states.encoder_outputs)};
}

Scores Model::scores(const ModelInput& reading, const ForwardContext& pass) const {
  BackboneOutput states = read(reading, pass);
  Variable scores = readout_->scores(states, reading, pass);
  return {std::move(scores), std::move(states.carried)};
}

}  // namespace longspan
