#include "framework/model/model.h"

#include <algorithm>
#include <iterator>

#include "framework/autograd/collectives.h"
#include "framework/nn/attention/kept_keys.h"
#include "framework/nn/inner_losses.h"

namespace longspan {

Model::Model(const ModelSetting& setting, const BodyFactory& body, const ReadoutFactory& readout)
    : parameters_(std::make_unique<Parameters>(setting.device,
                                               setting.compute,
                                               setting.mesh,
                                               setting.sharing,
                                               setting.separate_masters)),
      sampling_(setting.sampling) {
  refuse(problem_of(sampling_));
  const Scope scope(*parameters_);
  body_ = body(scope, setting);
  readout_ = readout(scope, *body_, setting);
  const BodyEnd end = body_->end();
  if (end.norm)
    final_norm_.emplace(scope.child("final_norm"), end.width, *end.norm, 1e-5, end.norm_kind);
  dropout_ = end.dropout;
  parameters_->allocate(setting.random);
}

States Model::read(const Reading& reading, const Pass& pass) const {
  const ProcessMesh& mesh = parameters().mesh();
  Pass divided = pass;
  const std::int64_t time = body_->time_of(reading);
  divided.time = pass.kept ? undivided_time(time) : divide_time(mesh, time);
  divided.memory = divide_memory(mesh, reading.carried.length());
  States states = body_->run(reading, divided);
  if (pass.kept) pass.kept->advance(time);
  if (final_norm_) states.hidden = (*final_norm_)(states.hidden);
  divided.time = states.time;
  states.hidden = drop(states.hidden, dropout_, divided.child("output"));
  if (!states.carried.tensors.empty() && !states.carried.all)
    states.carried.all = std::min(reading.longest_memory, reading.carried.length() + time);
  return states;
}

Losses Model::losses(const Reading& given, const Pass& pass) const {
  const bool mixes = pass.training && sampling_.mixing != InputMixing::none;
  const Reading reading = mixes ? mixed_reading(sampling_, *this, given, pass) : given;
  States states = read(reading, pass);
  std::vector<Term> terms = readout_->terms(states, reading, pass);
  std::ranges::move(states.terms, std::back_inserter(terms));
  if (pass.inner)
    for (const auto& [name, sum] : pass.inner->sums())
      terms.push_back({.name = name,
                       .values = leave_split(Variable(sum.total), parameters().mesh().tensor),
                       .count = "",
                       .weight = sum.weight});
  return {std::move(terms), std::move(states.carried), std::move(states.watched)};
}

Answers Model::answers(const Reading& reading, const Pass& pass) const {
  const NoGradient unrecorded;
  States states = read(reading, pass);
  std::vector<Term> terms = readout_->terms(states, reading, pass);
  Tensor choices = readout_->choices(states, reading, pass);
  return {std::move(terms), std::move(choices), std::move(states.carried)};
}

Scores Model::scores(const Reading& reading, const Pass& pass) const {
  States states = read(reading, pass);
  Variable scores = readout_->scores(states, reading, pass);
  return {std::move(scores), std::move(states.carried)};
}

}  // namespace longspan
