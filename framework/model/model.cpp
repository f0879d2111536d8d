#include "framework/model/model.h"

#include <algorithm>
#include <iterator>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"
#include "framework/model/best_words.h"
#include "framework/model/refinement.h"
#include "framework/nn/attention/kept_keys.h"
#include "framework/nn/inner_losses.h"

namespace longspan {

Model::Model(const ModelSetting& setting, const BodyFactory& body, const ReadoutFactory& readout)
    : parameters_(std::make_unique<Parameters>(setting.device,
                                               setting.compute,
                                               setting.mesh,
                                               setting.sharing,
                                               setting.separate_masters,
                                               setting.tuning)),
      sampling_(setting.sampling) {
  refuse(problem_of(sampling_));
  const Scope scope(*parameters_);
  body_ = body(scope, setting);
  readout_ = readout(scope, *body_, setting);
  const BodyEnd end = body_->end();
  if (end.norm) final_norm_.emplace(scope.child("final_norm"), end.width, end.norm_form, *end.norm);
  dropout_ = end.dropout;
  masked_ = end.masked;
  refuse_unmatched(*parameters_);
  parameters_->allocate(setting.random);
}

namespace {

// Terms of one name are summed, each of them being of the same positions.
void add_losses(Losses& sum, Losses&& more) {
  if (sum.terms.empty()) {
    sum = std::move(more);
    return;
  }
  for (Term& term : more.terms) {
    const auto same = std::ranges::find(sum.terms, term.name, &Term::name);
    require(same != sum.terms.end(), "the first of several passes has no term `{}`", term.name);
    same->values = add(same->values, term.values);
  }
}

}  // namespace

States Model::read(const Reading& reading, const Pass& pass) const {
  const ProcessMesh& mesh = parameters().mesh();
  Pass divided = pass;
  const std::int64_t time = body_->time_of(reading);
  divided.time = pass.kept ? undivided_time(time) : divide_time(mesh, time);
  divided.memory = divide_memory(mesh, reading.carried.length());
  States states = body_->run(reading, divided);
  if (pass.kept) pass.kept->advance(time);
  divided.time = states.time;
  if (final_norm_) states.hidden = (*final_norm_)(states.hidden, divided.child("final_norm"), {});
  states.hidden = drop(states.hidden, dropout_, divided.child("output"));
  if (!states.carried.tensors.empty() && !states.carried.all)
    states.carried.all =
        std::min(reading.longest_memory + reading.kept_beside, reading.carried.length() + time);
  return states;
}

Losses Model::losses(const Reading& given, const Pass& pass) const {
  if (pass.training && masked_ && masked_->masking == WordMasking::refined)
    return refined_losses(given, pass);
  const bool mixes = pass.training && sampling_.mixing != InputMixing::none;
  const Reading reading = mixes ? mixed_reading(sampling_, *this, given, pass) : given;
  Losses result = losses_of(read(reading, pass), reading, pass);
  if (pass.inner)
    for (const auto& [name, sum] : pass.inner->sums())
      result.terms.push_back(
          {.name = name,
           .values = leave_split(Variable(sum.total), parameters().mesh().tensor),
           .count = "",
           .weight = sum.weight});
  return result;
}

Losses Model::losses_of(States&& states, const Reading& reading, const Pass& pass) const {
  std::vector<Term> terms = readout_->terms(states, reading, pass);
  std::ranges::move(states.terms, std::back_inserter(terms));
  return {std::move(terms), std::move(states.carried), std::move(states.watched)};
}

Losses Model::refined_losses(const Reading& given, const Pass& pass) const {
  const bool dry = parameters().device().state().dry();
  const RefinedPasses passes = refined_passes(*masked_, pass, dry);
  Reading reading = given;
  Losses result;
  for (std::int64_t round = 0; round <= passes.last; ++round) {
    Pass here = round == 0 ? pass : pass.child("refined").child(static_cast<std::uint64_t>(round));
    std::optional<NoGradient> unrecorded;
    if (round < passes.first_learnt) {
      unrecorded.emplace();
      here.reconstruction = nullptr;
      here.inner = nullptr;
      here.learns = false;
    }
    // What was encoded without a gradient is encoded again for it.
    if (round == passes.first_learnt) reading.sides.clear();
    States states = read(reading, here);
    if (!states.sides.empty()) reading.sides = states.sides;
    Tensor next;
    if (round < passes.last) {
      const NoGradient of_words;
      const Tensor scores = readout_->scores(states, reading, here).value();
      if (!dry)
        next = next_words(
            *masked_,
            reading,
            best_words(scores, reading.time(), readout_->part(), parameters().mesh(), masked_->mask)
                .ids,
            here);
    }
    if (!unrecorded) add_losses(result, losses_of(std::move(states), reading, here));
    if (next.defined()) reading.fields["tokens"] = next;
  }
  return result;
}

Answers Model::answers(const Reading& reading, const Pass& pass) const {
  const NoGradient unrecorded;
  States states = read(reading, pass);
  std::vector<Term> terms = readout_->terms(states, reading, pass);
  Tensor choices = readout_->choices(states, reading, pass);
  return {std::move(terms), std::move(choices), std::move(states.carried), std::move(states.sides)};
}

Scores Model::scores(const Reading& reading, const Pass& pass) const {
  States states = read(reading, pass);
  Variable scores = readout_->scores(states, reading, pass);
  return {std::move(scores), std::move(states.carried)};
}

}  // namespace longspan
