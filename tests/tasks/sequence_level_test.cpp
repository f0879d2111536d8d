// Sequence-level training: candidates, their losses, and training on them.
#include "framework/modeling/sequence_level.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "framework/autograd/ops.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/tasks/sequence_level_testing.h"

namespace longspan::sequence_level_test {
namespace {

using testing::candidate_model;
using testing::candidate_task;
using testing::OpenPairs;
using enum SequenceLevelMethod;

using Ids = std::vector<std::int64_t>;

// Large enough that candidates differ, with all options of a method.
SequenceLevelOptions options_of(SequenceLevelMethod method) {
  return {.method = method,
          .candidates = 3,
          .alpha = 0.3,
          .metric = SentenceMetric::error_rate,
          .unit = SentenceUnit::tokens,
          .cross_entropy_weight = 0.5,
          .extra_length = 2};
}

Ids row_ids(const Batch& batch, const char* field, std::int64_t row) {
  const std::int64_t length = batch.field("length").data<std::int64_t>()[row];
  const std::int64_t* const begin =
      batch.field(field).data<std::int64_t>() + row * batch.field(field).shape()[1];
  return {begin, begin + length};
}

double weight_of(const Batch& batch, const char* field, std::int64_t row, std::int64_t t) {
  return batch.field(field).data<double>()[row * batch.field(field).shape()[1] + t];
}

double metric_of(const BatchSource& source, const std::string& name) {
  for (const auto& [found, value] : source.metric_values())
    if (found == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

// ln P of a row's target, from a pass over this row alone without training.
double naive_log_probability(const Model& model, const Batch& batch, std::int64_t row) {
  const NoGradGuard unrecorded;
  const Losses losses = model.losses({.fields = rows_of(batch.fields, row, row + 1)}, {});
  double sum = 0;
  for (const double loss : losses.terms.front().values.value().span<double>()) sum -= loss;
  return sum;
}

Losses training_losses(const Model& model, const Batch& batch) {
  return model.losses({.fields = batch.fields}, ForwardContext{.training = true});
}

double total(const LossTerm& term) { return sum(term.values).value().item(); }

TEST(CandidateSource, ArrangesCandidatesAndReference) {
  for (const SequenceLevelMethod method : {minimum_risk, self_critical, leave_one_out}) {
    OpenPairs files;
    const SequenceLevelOptions level = options_of(method);
    const auto task = candidate_task(files, level);
    const auto model = candidate_model(level);
    const auto source = task->source_by(*model), pairs = task->source();
    const SpecialTokenIds special = sentence_ids({});
    for (int step = 0; step < 3; ++step) {
      const Batch batch = source->next(), given = pairs->next();
      ASSERT_EQ(batch.rows(), 4 * given.rows());
      EXPECT_EQ(batch.first_row, 4 * given.first_row);
      std::int64_t tokens = 0, candidates = 0;
      for (std::int64_t row = 0; row < batch.rows(); ++row) {
        EXPECT_EQ(batch.field("source_length").data<std::int64_t>()[row],
                  given.field("source_length").data<std::int64_t>()[row / 4]);
        const Ids inputs = row_ids(batch, "tokens", row), targets = row_ids(batch, "targets", row);
        if (inputs.empty()) continue;
        EXPECT_EQ(inputs.front(), special.begin);
        for (std::size_t t = 0; t + 1 < inputs.size(); ++t) EXPECT_EQ(inputs[t + 1], targets[t]);
        if (row % 4 == 3) {
          EXPECT_EQ(targets, row_ids(given, "targets", row / 4));
          EXPECT_EQ(weight_of(batch, "reference_weights", row, 0), 1);
          EXPECT_EQ(weight_of(batch, "candidate_weights", row, 0), 0);
          continue;
        }
        ++candidates;
        tokens += std::ssize(targets);
        EXPECT_EQ(weight_of(batch, "reference_weights", row, 0), 0);
        const std::size_t longest = row_ids(given, "targets", row / 4).size() + 1;
        EXPECT_LE(targets.size(), targets.back() == special.end ? longest + 1 : longest);
        const double weight = weight_of(batch, "candidate_weights", row, std::ssize(targets) - 1);
        EXPECT_TRUE(method != minimum_risk || weight == -1) << weight;
      }
      EXPECT_EQ(batch.count("candidates"), candidates);
      EXPECT_EQ(batch.count("candidate_tokens"), tokens);
      EXPECT_EQ(batch.count("rows"), given.count("rows"));
      EXPECT_EQ(batch.count("reference_tokens"), given.count("tokens"));
      EXPECT_EQ(batch.count("tokens"), tokens + given.count("tokens"));
    }
    EXPECT_GT(metric_of(*source, "candidate_length"), 1);
    EXPECT_GT(metric_of(*source, "candidate_entropy"), 0);
    EXPECT_LE(metric_of(*source, "reward_mean"), 1);
  }
}

TEST(CandidateSource, DependsOnSeedAndPosition) {
  const SequenceLevelOptions level = options_of(self_critical);
  const auto model = candidate_model(level);
  const auto batches_after = [&](std::int64_t skipped, std::uint64_t seed) {
    OpenPairs files;
    const auto task = candidate_task(files, level, {}, 1, seed);
    const auto source = task->source_by(*model);
    if (skipped > 0) {
      const auto pairs = task->source();
      for (std::int64_t i = 0; i < skipped; ++i) pairs->next();
      source->restore(pairs->cursors());
    }
    std::vector<Ids> found;
    for (std::int64_t step = skipped; step < 4; ++step) {
      const Batch batch = source->next();
      for (std::int64_t row = 0; row < batch.rows(); ++row)
        found.push_back(row_ids(batch, "targets", row));
    }
    return found;
  };
  const std::vector<Ids> all = batches_after(0, 1), later = batches_after(3, 1);
  EXPECT_EQ(batches_after(0, 1), all);
  EXPECT_NE(batches_after(0, 2), all);
  // A restored source repeats what follows its position, without the batches before.
  EXPECT_EQ(std::vector(all.end() - std::ssize(later), all.end()), later);
}

// At a low temperature all candidates are the greedy output, and repeated ones are omitted.
TEST(CandidateSource, SamplesWithTemperature) {
  SequenceLevelOptions level = options_of(minimum_risk);
  const auto model = candidate_model(level);
  for (const double temperature : {1e-6, 1.0}) {
    level.temperature = temperature;
    OpenPairs files;
    const auto source = candidate_task(files, level)->source_by(*model);
    const Batch batch = source->next();
    EXPECT_EQ(batch.count("candidates") == batch.count("rows"), temperature < 1);
  }
}

TEST(SequenceLevelLosses, MinimumRiskMatchesDefinition) {
  for (const bool by_length : {false, true}) {
    OpenPairs files;
    SequenceLevelOptions level = options_of(minimum_risk);
    level.normalizes_length = by_length;
    level.with_reference = true;
    const auto task = candidate_task(files, level);
    const auto model = candidate_model(level);
    const Batch batch = task->source_by(*model)->next();
    double risk = 0, nats = 0;
    for (std::int64_t first = 0; first < batch.rows(); first += 4) {
      double all = 0, cost = 0;
      for (std::int64_t row = first; row < first + 3; ++row) {
        if (batch.field("candidate_present").data<std::int64_t>()[row] == 0) continue;
        const auto length = static_cast<double>(row_ids(batch, "targets", row).size());
        const double l = naive_log_probability(*model, batch, row) / (by_length ? length : 1);
        all += std::exp(level.alpha * l);
        cost += std::exp(level.alpha * l) * batch.field("candidate_costs").data<double>()[row];
      }
      // The reference is a candidate of cost 0.
      EXPECT_EQ(batch.field("candidate_costs").data<double>()[first + 2], 0);
      risk += all > 0 ? cost / all : 0;
      nats -= naive_log_probability(*model, batch, first + 3);
    }
    const Losses losses = training_losses(*model, batch);
    ASSERT_EQ(losses.terms.size(), 2u);
    EXPECT_EQ(losses.terms[0].name, "loss");
    EXPECT_EQ(losses.terms[0].weight, 0.5);
    EXPECT_NEAR(total(losses.terms[0]), nats, 1e-9 * nats);
    EXPECT_EQ(losses.terms[1].name, "risk");
    EXPECT_NEAR(total(losses.terms[1]), risk, 1e-10);
  }
}

TEST(SequenceLevelLosses, ReinforceMatchesDefinition) {
  OpenPairs files;
  SequenceLevelOptions level = options_of(leave_one_out);
  level.cross_entropy_weight = 0;
  const auto task = candidate_task(files, level);
  const auto model = candidate_model(level);
  const auto source = task->source_by(*model), pairs = task->source();
  const Batch batch = source->next(), given = pairs->next();
  double expected = 0;
  for (std::int64_t first = 0; first < batch.rows(); first += 3) {
    const Ids target = row_ids(given, "targets", first / 3);
    std::vector<double> rewards;
    for (std::int64_t row = first; row < first + 3; ++row) {
      Ids found = row_ids(batch, "targets", row);
      if (!found.empty() && found.back() == target.back()) found.pop_back();
      rewards.push_back(sentence_score(
          SentenceMetric::error_rate, found, std::span(target).first(target.size() - 1)));
    }
    const double sum = std::accumulate(rewards.begin(), rewards.end(), 0.0);
    for (std::size_t s = 0; s < 3; ++s)
      expected -= (rewards[s] - (sum - rewards[s]) / 2) *
                  naive_log_probability(*model, batch, first + static_cast<std::int64_t>(s));
  }
  const Losses losses = training_losses(*model, batch);
  ASSERT_EQ(losses.terms.size(), 1u);
  EXPECT_EQ(losses.terms[0].name, "reinforce");
  EXPECT_EQ(losses.terms[0].count, "candidate_tokens");
  EXPECT_NEAR(total(losses.terms[0]), expected, 1e-9);
}

// Minimum risk omits equal candidates, and REINFORCE does not.
TEST(CandidateSource, OmitsRepeatedCandidatesOfMinimumRisk) {
  OpenPairs files;
  SequenceLevelOptions level = options_of(minimum_risk);
  level.candidates = 200;
  level.extra_length = 0;
  level.cross_entropy_weight = 0;
  for (const SequenceLevelMethod method : {minimum_risk, leave_one_out}) {
    level.method = method;
    const auto model = candidate_model(level);
    const auto source = candidate_task(files, level)->source_by(*model);
    std::int64_t candidates = 0, pairs = 0;
    bool repeats = false;
    for (int step = 0; step < 2; ++step) {
      const Batch batch = source->next();
      candidates += batch.count("candidates");
      pairs += batch.count("rows");
      for (std::int64_t first = 0; first < batch.rows(); first += level.candidates) {
        std::multiset<Ids> found;
        for (std::int64_t row = first; row < first + level.candidates; ++row)
          if (Ids ids = row_ids(batch, "targets", row); !ids.empty()) found.insert(std::move(ids));
        repeats = repeats || std::set<Ids>(found.begin(), found.end()).size() < found.size();
      }
    }
    EXPECT_EQ(repeats, method != minimum_risk);
    EXPECT_EQ(candidates == pairs * level.candidates, method != minimum_risk);
  }
}

TEST(SequenceLevelTraining, MicroBatchesMatchOneBatch) {
  for (const SequenceLevelMethod method : {minimum_risk, self_critical}) {
    const SequenceLevelOptions level = options_of(method);
    const auto losses = [&](std::int64_t parts) {
      OpenPairs files;
      const auto task = candidate_task(files, level, {}, parts);
      TrainingOptions training;
      training.steps = 3;
      training.accumulation = parts;
      Trainer trainer(candidate_model(level, {}, 0.1), training, Random(1));
      const auto source = task->source_by(trainer.model());
      testing::Values found;
      for (int step = 0; step < 3; ++step) found.push_back(trainer.step(source->next()).loss);
      return found;
    };
    testing::expect_close(losses(2), losses(1), 1e-11);
  }
}

TEST(SequenceLevelTraining, RaisesMeanReward) {
  for (const SequenceLevelMethod method : {minimum_risk, self_critical, leave_one_out}) {
    OpenPairs files;
    SequenceLevelOptions level = options_of(method);
    level.candidates = 6;
    level.alpha = 0.005;  // long candidates differ much in probability
    level.cross_entropy_weight = 0;
    const auto task = candidate_task(files, level);
    TrainingOptions training;
    training.steps = 36;
    training.learning_rate = 0.01;
    training.schedule = ScheduleKind::constant;
    Trainer trainer(candidate_model(level), training, Random(1));
    const auto source = task->source_by(trainer.model());
    double first = 0, last = 0;
    for (int step = 0; step < 36; ++step) {
      trainer.step(source->next());
      const double reward = metric_of(*source, "reward_mean") / 10;
      if (step < 10) first += reward;
      if (step >= 26) last += reward;
    }
    EXPECT_GT(last, first + 0.05) << static_cast<int>(method);
  }
}

TEST(SequenceLevelOptions, RejectUnsupportedSettings) {
  SequenceLevelOptions level = options_of(leave_one_out);
  level.candidates = 1;
  EXPECT_THROW(candidate_model(level), ConfigurationError);
  EXPECT_NE(problem_of(level), "");
  level.method = self_critical;
  EXPECT_EQ(problem_of(level), "");
  level.temperature = 0.5;
  EXPECT_NE(problem_of(level), "");
  level = options_of(minimum_risk);
  level.temperature = 0.5;
  EXPECT_EQ(problem_of(level), "");
}

}  // namespace
}  // namespace longspan::sequence_level_test
