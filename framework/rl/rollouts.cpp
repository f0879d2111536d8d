#include "framework/rl/rollouts.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/format.h"

namespace longspan {

namespace {

constexpr const char* integer_fields[] = {"tokens", "previous_action", "actions", "episodes"};
constexpr const char* real_fields[] = {"reward", "log_probabilities", "advantages", "returns"};

template <typename T>
T& at(const Fields& fields, const char* name, std::int64_t element) {
  return field_of(fields, name).span<T>()[static_cast<std::size_t>(element)];
}

}  // namespace

// Inputs of the advantage estimate, [rows, steps] each.
struct RolloutSource::Recording {
  std::vector<double> reward;
  std::vector<double> value;
  std::vector<double> next_value;
  std::unique_ptr<bool[]> ends;
  std::vector<std::int64_t> episode;  // of each row, counted in the rollout

  Recording(std::int64_t rows, std::int64_t steps)
      : reward(static_cast<std::size_t>(rows * steps)),
        value(reward.size()),
        next_value(reward.size()),
        ends(std::make_unique<bool[]>(reward.size())),
        episode(static_cast<std::size_t>(rows)) {}
};

RolloutSource::RolloutSource(const RolloutContext& setting, const Model& model)
    : setting_(setting),
      model_(&model),
      lives_(setting.lives),
      reader_(model, setting.segment),
      ended_(lives_.rows().size()) {
  const std::int64_t rows = setting_.lives.rows.count(), groups = setting_.options.minibatches;
  if (rows % groups != 0)
    throw ConfigurationError(
        "ppo.num_minibatches: expected a divisor of the {} per data rank, found {}",
        pluralize(rows, "environment"),
        groups);
  if (!setting_.staggered) return;
  const std::int64_t steps = setting_.lives.environment.steps;
  for (std::int64_t row = 0; row < rows; ++row)
    lives_.random_steps(static_cast<std::size_t>(row),
                        (setting_.lives.rows.begin + row) * steps / setting_.environments);
}

Batch RolloutSource::next() {
  if (made_ == 0) collect();
  const std::int64_t groups = setting_.options.minibatches, group = made_ % groups;
  const std::int64_t first = setting_.lives.rows.begin, count = setting_.lives.rows.count();
  std::vector<std::int64_t> rows;
  for (std::int64_t row = group; row < count; row += groups) rows.push_back(row);
  Batch batch;
  batch.fields = groups == 1 ? fields_ : rows_chosen(rows);
  batch.carried = groups == 1 ? begun_ : select_rows(begun_, rows);
  batch.counts = {{"tokens", std::ssize(rows) * setting_.segment}, {"rows", std::ssize(rows)}};
  batch.first_row = first / groups;
  batch.place = fmt::format("at minibatch {} of epoch {} of the rollout that ended at action {}",
                            group,
                            made_ / groups,
                            lives_.rows().front().actions);
  made_ = (made_ + 1) % batches();
  return batch;
}

// Allocates new tensors, because earlier batches may still be in use.
void RolloutSource::collect() {
  const std::int64_t rows = setting_.lives.rows.count();
  const auto made = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, setting_.lives.host, MemoryTag::workspace);
  };
  fields_.clear();
  for (const char* name : integer_fields)
    fields_[name] = made({rows, setting_.segment}, DType::i64);
  for (const char* name : real_fields) fields_[name] = made({rows, setting_.segment}, DType::f64);
  fields_["earlier"] = lives_.observations().at("earlier");
  begun_ = reader_.carried();
  Recording recording(rows, setting_.segment);
  for (std::int64_t step = 0; step < setting_.segment; ++step) record_step(step, recording);
  compute_advantages(recording);
}

void RolloutSource::record_step(std::int64_t step, Recording& recording) {
  const std::int64_t rows = setting_.lives.rows.count(), steps = setting_.segment;
  const Fields sight = lives_.observations();
  const std::vector<ActionSample> choices = lives_.choose(reader_.read(sight));
  const std::vector<EnvStep> outcomes = lives_.step(choices);
  // Value estimates after truncated episodes, and at the end of the rollout.
  const bool looks = step + 1 == steps || std::ranges::any_of(outcomes, [](const EnvStep& outcome) {
                       return outcome.ending == Termination::time;
                     });
  const std::vector<ActionSample> following =
      looks ? lives_.choose(reader_.prefill(lives_.observations())) : std::vector<ActionSample>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    const std::int64_t i = row * steps + step;
    const auto element = static_cast<std::size_t>(i);
    const Termination ending = outcomes[r].ending;
    for (const char* name : {"tokens", "previous_action"})
      at<std::int64_t>(fields_, name, i) = at<std::int64_t>(sight, name, row);
    at<double>(fields_, "reward", i) = at<double>(sight, "reward", row);
    at<std::int64_t>(fields_, "actions", i) = choices[r].action;
    at<double>(fields_, "log_probabilities", i) = choices[r].log_probability;
    at<std::int64_t>(fields_, "episodes", i) = recording.episode[r];
    recording.reward[element] = outcomes[r].reward;
    recording.value[element] = choices[r].value;
    recording.ends[element] = ending != Termination::none;
    const bool was_before = step > 0 && !recording.ends[element - 1];
    if (was_before) recording.next_value[element - 1] = choices[r].value;
    if (looks &&
        (ending == Termination::time || (ending == Termination::none && step + 1 == steps)))
      recording.next_value[element] = following[r].value;
    if (ending == Termination::none) continue;
    ++recording.episode[r];
    const EnvState& life = lives_.rows()[r];
    ended_[r] = {life.total, lives_.environment().succeeded(life.now)};
  }
  lives_.reset_done(outcomes);
}

void RolloutSource::compute_advantages(const Recording& recording) {
  const auto steps = static_cast<std::size_t>(setting_.segment);
  const Tensor& advantages = fields_.at("advantages");
  for (std::size_t row = 0; row < ended_.size(); ++row) {
    const auto of_row = [&](const std::vector<double>& all) {
      return std::span<const double>(all).subspan(row * steps, steps);
    };
    const Trajectory experience = {.reward = of_row(recording.reward),
                                   .value = of_row(recording.value),
                                   .next_value = of_row(recording.next_value),
                                   .ends = {recording.ends.get() + row * steps, steps}};
    const std::vector<double> found =
        gae(experience, setting_.options.discount, setting_.options.lambda);
    for (std::size_t step = 0; step < steps; ++step) {
      advantages.span<double>()[row * steps + step] = found[step];
      fields_.at("returns").span<double>()[row * steps + step] =
          found[step] + experience.value[step];
    }
  }
  normalize(advantages);
}

// Collective over the data ranks. Computes the mean first, since a difference of squares would lose
// precision.
void RolloutSource::normalize(const Tensor& advantages) const {
  const Communicator& data = model_->parameters().mesh().data;
  const auto values = advantages.span<double>();
  const auto mean_of = [&](const auto& term) {
    double sum = 0;
    for (const double value : values) sum += term(value);
    const auto count = static_cast<double>(setting_.environments * setting_.segment);
    return data.all_reduce(sum, Reduction::sum) / count;
  };
  const double mean = mean_of([](double value) { return value; });
  const double variance = mean_of([mean](double value) { return (value - mean) * (value - mean); });
  constexpr double min_deviation = 1e-8;  // for advantages that are all equal
  for (double& value : values) value = (value - mean) / (std::sqrt(variance) + min_deviation);
}

Fields RolloutSource::rows_chosen(const std::vector<std::int64_t>& rows) const {
  Fields chosen;
  for (const auto& [name, field] : fields_) {
    const Tensor to = Tensor::empty(field.shape().with(0, std::ssize(rows)),
                                    field.dtype(),
                                    field.device(),
                                    MemoryTag::workspace);
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      to.slice(i, i + 1).copy_from(field.slice(row, row + 1));
    }
    chosen[name] = to;
  }
  return chosen;
}

std::vector<std::pair<std::string, double>> RolloutSource::metric_values() const {
  std::vector<double> sums(4);
  for (std::size_t row = 0; row < ended_.size(); ++row) {
    const std::int64_t episodes = lives_.rows()[row].episode;
    if (episodes == 0) continue;
    sums[0] += static_cast<double>(episodes);
    sums[1] += 1;
    sums[2] += ended_[row].reward;
    sums[3] += ended_[row].succeeded ? 1 : 0;
  }
  const Tensor all = Tensor::from<double>(sums, {4}, Device::cpu(), MemoryTag::workspace);
  model_->parameters().mesh().data.all_reduce(all, Reduction::sum);
  const auto found = all.span<double>();
  if (found[1] == 0) return {};
  return {{"episodes", found[0]},
          {"episode_reward_mean", found[2] / found[1]},
          {"success_rate", 100 * found[3] / found[1]}};
}

std::vector<double> gae(const Trajectory& experience, double discount, double lambda) {
  std::vector<double> advantages(experience.reward.size());
  double following = 0;
  for (std::size_t t = advantages.size(); t-- > 0;) {
    const double delta =
        experience.reward[t] + discount * experience.next_value[t] - experience.value[t];
    following = delta + (experience.ends[t] ? 0 : discount * lambda * following);
    advantages[t] = following;
  }
  return advantages;
}

}  // namespace longspan
