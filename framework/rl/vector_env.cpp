#include "framework/rl/vector_env.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace longspan {
namespace {

// Samples an action: the first whose cumulative probability exceeds `point`.
std::int64_t drawn_action(std::span<const double> probabilities, double point) {
  double sum = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    sum += probabilities[i];
    if (point < sum) return static_cast<std::int64_t>(i);
  }
  return std::ssize(probabilities) - 1;
}

}  // namespace

VectorEnv::VectorEnv(const VectorEnvOptions& setting)
    : setting_(setting), lives_(static_cast<std::size_t>(setting.rows.count())) {
  for (std::size_t row = 0; row < lives_.size(); ++row) begin(row);
}

Random VectorEnv::of_episode(std::size_t row) const {
  const std::uint64_t global = static_cast<std::uint64_t>(setting_.rows.begin) + row;
  return setting_.episodes.child(global).child(static_cast<std::uint64_t>(lives_[row].episode));
}

void VectorEnv::begin(std::size_t row) {
  lives_[row] = {.episode = lives_[row].episode,
                 .actions = lives_[row].actions,
                 .now = setting_.environment.begin(of_episode(row))};
}

Fields VectorEnv::observations() const {
  const std::int64_t rows = std::ssize(lives_);
  const auto made = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, setting_.host, MemoryTag::workspace);
  };
  const Fields fields = {{"tokens", made({rows, 1}, DType::i64)},
                         {"previous_action", made({rows, 1}, DType::i64)},
                         {"reward", made({rows, 1}, DType::f64)},
                         {"earlier", made({rows}, DType::i64)}};
  for (std::size_t row = 0; row < lives_.size(); ++row) {
    const EnvState& life = lives_[row];
    const char seen = setting_.environment.observation(life.now);
    fields.at("tokens").span<std::int64_t>()[row] = static_cast<unsigned char>(seen);
    fields.at("previous_action").span<std::int64_t>()[row] = life.previous_action;
    fields.at("reward").span<double>()[row] = life.reward;
    fields.at("earlier").span<std::int64_t>()[row] = life.steps;
  }
  return fields;
}

std::vector<ActionSample> VectorEnv::choose(const Tensor& scores) const {
  const auto actions = setting_.environment.actions.size();
  require(scores.elements() == std::ssize(lives_) * static_cast<std::int64_t>(actions + 1),
          "expected scores for {} rows with {} actions, found {}",
          lives_.size(),
          actions,
          scores.shape().to_string());
  std::vector<ActionSample> choices;
  for (std::size_t row = 0; row < lives_.size(); ++row) {
    const auto of_row = scores.span<double>().subspan(row * (actions + 1), actions + 1);
    const auto logits = of_row.first(actions);
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    const double log_sum = largest + std::log(sum);
    std::vector<double> probabilities;
    ActionSample choice = {.value = of_row.back()};
    for (const double logit : logits) {
      probabilities.push_back(std::exp(logit - log_sum));
      choice.entropy -= probabilities.back() * (logit - log_sum);
    }
    const Random random =
        setting_.actions.child(static_cast<std::uint64_t>(setting_.rows.begin) + row);
    const auto number = static_cast<std::uint64_t>(lives_[row].actions);
    choice.action = setting_.greedy ? std::ranges::max_element(logits) - logits.begin()
                                    : drawn_action(probabilities,
                                                   static_cast<double>(random.uniform_at(number)));
    choice.log_probability = logits[static_cast<std::size_t>(choice.action)] - log_sum;
    choices.push_back(choice);
  }
  return choices;
}

std::vector<EnvStep> VectorEnv::step(const std::vector<ActionSample>& choices) {
  std::vector<EnvStep> outcomes;
  for (std::size_t row = 0; row < lives_.size(); ++row)
    outcomes.push_back(take(row, choices[row].action));
  return outcomes;
}

EnvStep VectorEnv::take(std::size_t row, std::int64_t action) {
  EnvState& life = lives_[row];
  const EnvStep outcome = setting_.environment.act(life.now, action, of_episode(row));
  ++life.steps;
  ++life.actions;
  life.previous_action = action;
  life.reward = outcome.reward;
  life.total += outcome.reward;
  return outcome;
}

void VectorEnv::random_steps(std::size_t row, std::int64_t steps) {
  const Random random =
      setting_.actions.child("before").child(static_cast<std::uint64_t>(setting_.rows.begin) + row);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t action = drawn(random, step, std::ssize(setting_.environment.actions));
    if (take(row, action).ending == Termination::none) continue;
    ++lives_[row].episode;
    begin(row);
  }
}

void VectorEnv::reset_done(const std::vector<EnvStep>& outcomes) {
  for (std::size_t row = 0; row < lives_.size(); ++row) {
    if (outcomes[row].ending == Termination::none) continue;
    ++lives_[row].episode;
    begin(row);
  }
}

void VectorEnv::restore(std::vector<EnvState> lives) {
  const Environment& world = setting_.environment;
  for (std::size_t row = 0; row < lives.size(); ++row) {
    const EnvState& life = lives[row];
    const bool is_valid = life.episode >= 0 && life.steps >= 0 && life.steps < world.steps &&
                          life.actions >= life.steps && life.previous_action >= no_action &&
                          life.previous_action < std::ssize(world.actions) &&
                          life.now.size() == world.numbers;
    if (!is_valid)
      throw DataError(
          "environment {} resumes at step {} of episode {}, but an episode of a {} has "
          "{} steps; restore the environment of the checkpoint",
          static_cast<std::size_t>(setting_.rows.begin) + row,
          life.steps,
          life.episode,
          world.description,
          world.steps);
  }
  require(lives.size() == lives_.size(),
          "expected {} environment states, found {}",
          lives_.size(),
          lives.size());
  lives_ = std::move(lives);
}

void IncrementalReader::begin(const RecurrentState& carried) {
  carried_ = carried;
  position_ = 0;
}

Tensor IncrementalReader::read(const Fields& fields) {
  position_ = (position_ + 1) % segment_;
  Scores found = scores(fields, position_);
  carried_ = std::move(found.carried);
  return found.scores.value();
}

Tensor IncrementalReader::prefill(const Fields& fields) const {
  return scores(fields, position_ + 1).scores.value();
}

Scores IncrementalReader::scores(const Fields& fields, std::int64_t extra_context) const {
  const NoGradGuard unrecorded;
  return model_->scores({.fields = fields,
                         .carried = carried_,
                         .max_mem_len = model_->body().max_mem_len(),
                         .extra_context = extra_context},
                        ForwardContext());
}

}  // namespace longspan
