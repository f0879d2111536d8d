// The learner reproduces the actor's outputs, and runs resume at any point of a rollout.
#include "framework/rl/rollouts.h"

#include <gtest/gtest.h>

#include "tests/nn/layer_testing.h"
#include "tests/rl/rollouts_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::rollouts_test {
namespace {

using testing::acting_model;
using testing::acting_options;
using testing::integers;
using testing::reals;
using testing::rollouts_in;

Environment world(const std::string& text) { return parse_environment(text, "world"); }

Tensor scores_of(const Model& model, const Batch& batch) {
  const NoGradGuard unrecorded;
  return model
      .scores({.fields = batch.fields,
               .carried = *batch.carried,
               .max_mem_len = model.body().max_mem_len()},
              ForwardContext())
      .scores.value();
}

// Lambda 0: a return is the reward plus the discounted value of the next observation, which may be
// in the next rollout. The weights do not change.
void expect_returns(const Batch& batch,
                    const Tensor& scores,
                    const Batch& next,
                    const Tensor& next_scores,
                    std::size_t actions) {
  const auto returns = reals(batch, "returns"), reward = reals(batch, "reward");
  const auto episodes = integers(batch, "episodes"), earlier = integers(next, "earlier");
  const std::size_t steps = returns.size() / earlier.size();
  const auto value = [&](const Tensor& of, std::size_t i) {
    return of.span<double>()[i * (actions + 1) + actions];
  };
  for (std::size_t i = 0; i < returns.size(); ++i) {
    const std::size_t row = i / steps;
    const bool is_last = i % steps == steps - 1;
    const bool continues = is_last ? earlier[row] > 0 : episodes[i + 1] == episodes[i];
    if (!continues) continue;
    const double given = is_last ? reals(next, "reward")[row * steps] : reward[i + 1];
    const double expected = is_last ? value(next_scores, row * steps) : value(scores, i + 1);
    EXPECT_NEAR(returns[i], given + 0.9 * expected, 1e-9);
  }
}

// Rollouts of 4 and 7 steps do not align with the episodes. The cases have memory, none, and
// same_length.
TEST(RolloutSource, LearnerReproducesActorOutputs) {
  for (const std::string text : {"t_maze length 3", "memory_maze side 3 steps 11"})
    for (const std::int64_t segment : {4, 7})
      for (const auto& [memory, same_length] :
           {std::pair<std::int64_t, bool>{9, false}, {3, false}, {0, false}, {6, true}}) {
        SCOPED_TRACE(fmt::format("{} segment {} memory {}", text, segment, memory));
        TransformerXlOptions options = acting_options(memory);
        options.same_length = same_length;
        const auto model = acting_model(options, world(text), segment);
        RolloutSource source(
            rollouts_in(world(text), 3, segment, {.discount = 0.9, .lambda = 0, .epochs = 1}),
            *model);
        const std::size_t actions = world(text).actions.size();
        Batch next = source.next();
        Tensor next_scores = scores_of(*model, next);
        for (int rollout = 0; rollout < 4; ++rollout) {
          const Batch batch = std::exchange(next, source.next());
          const Tensor scores = std::exchange(next_scores, scores_of(*model, next));
          expect_returns(batch, scores, next, next_scores, actions);
          const auto chosen = integers(batch, "actions");
          const auto before = reals(batch, "log_probabilities");
          for (std::size_t i = 0; i < chosen.size(); ++i) {
            const auto row = scores.span<double>().subspan(i * (actions + 1), actions);
            double sum = 0;
            for (const double logit : row) sum += std::exp(logit);
            EXPECT_NEAR(row[static_cast<std::size_t>(chosen[i])] - std::log(sum), before[i], 1e-9);
          }
        }
      }
}

// A truncated episode adds the value of its last observation, a terminated one adds nothing.
TEST(RolloutSource, TruncatedEpisodeReturnsIncludeLastValue) {
  const Environment maze = world("memory_maze side 2 steps 3"), t_maze = world("t_maze length 1");
  for (const Environment& environment : {maze, t_maze}) {
    SCOPED_TRACE(environment.description);
    const auto model = acting_model(acting_options(4), environment, 4);
    const RolloutContext setting =
        rollouts_in(environment, 4, 4, {.discount = 0.5, .lambda = 0, .epochs = 1});
    RolloutSource source(setting, *model);
    const Batch batch = source.next();
    // Replays the first episode of each environment.
    VectorEnv lives(setting.lives);
    IncrementalReader reader(*model, 4);
    std::vector<EnvStep> outcomes;
    for (int step = 0; step < 3; ++step)
      outcomes = lives.step(lives.choose(reader.read(lives.observations())));
    const std::vector<ActionSample> last = lives.choose(reader.prefill(lives.observations()));
    for (std::size_t row = 0; row < 4; ++row) {
      const bool by_time = outcomes[row].ending == Termination::time;
      EXPECT_EQ(by_time, environment.actions.size() == 4);
      EXPECT_NEAR(reals(batch, "returns")[row * 4 + 2],
                  outcomes[row].reward + (by_time ? 0.5 * last[row].value : 0),
                  1e-12);
      EXPECT_EQ(integers(batch, "earlier")[row], 0);
    }
  }
}

// The second episode of each row is read again alone, from its first step.
TEST(RolloutSource, EpisodesInRolloutAreIndependent) {
  const Environment t_maze = world("t_maze length 2");
  const auto model = acting_model(acting_options(6), t_maze, 8);
  RolloutSource source(rollouts_in(t_maze, 2, 8, {.epochs = 1}), *model);
  source.next();
  const Batch batch = source.next();
  const std::vector<std::int64_t> episodes = integers(batch, "episodes");
  EXPECT_EQ(std::vector<std::int64_t>(episodes.begin(), episodes.begin() + 8),
            (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  Batch second;
  for (const auto& [name, field] : batch.fields) {
    if (name == "earlier" || name == "episodes") continue;
    const Tensor part = Tensor::empty({2, 4}, field.dtype(), Device::cpu());
    for (std::int64_t row = 0; row < 2; ++row)
      part.slice(row, row + 1)
          .copy_from(field.slice(row, row + 1).reshape({8}).slice(4, 8).reshape({1, 4}));
    second.fields[name] = part;
  }
  second.carried = RecurrentState();
  const Tensor whole = scores_of(*model, batch), apart = scores_of(*model, second);
  for (std::int64_t row = 0; row < 2; ++row)
    for (std::int64_t i = 0; i < 4 * 3; ++i)
      EXPECT_NEAR(whole.data<double>()[(row * 8 + 4) * 3 + i],
                  apart.data<double>()[row * 4 * 3 + i],
                  1e-12);
}

TEST(RolloutSource, RecordsObservationsActionsAndRewards) {
  const Environment t_maze = world("t_maze length 1");
  const auto model = acting_model(acting_options(4), t_maze, 7);
  RolloutSource source(rollouts_in(t_maze, 5, 7, {.discount = 0.9, .lambda = 0, .epochs = 2}),
                       *model);
  const Batch batch = source.next(), again = source.next();
  EXPECT_EQ(integers(batch, "actions"), integers(again, "actions")) << "another epoch of the same";
  const auto tokens = integers(batch, "tokens"), actions = integers(batch, "actions");
  const auto previous = integers(batch, "previous_action"), episodes = integers(batch, "episodes");
  const auto reward = reals(batch, "reward");
  double mean = 0, square = 0;
  for (const double advantage : reals(batch, "advantages")) {
    mean += advantage / 35;
    square += advantage * advantage / 35;
  }
  EXPECT_NEAR(mean, 0, 1e-12);
  EXPECT_NEAR(square, 1, 1e-6);
  double ended = 0, sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t step = i % 7, of_episode = step % 3;
    EXPECT_EQ(episodes[i], static_cast<std::int64_t>(step / 3));
    if (of_episode == 0) {
      EXPECT_TRUE(tokens[i] == 'L' || tokens[i] == 'R');
    }
    if (of_episode == 1) {
      EXPECT_EQ(tokens[i], '.');
    }
    if (of_episode == 2) {
      EXPECT_EQ(tokens[i], '?');
    }
    EXPECT_EQ(previous[i], of_episode == 0 ? no_action : actions[i - 1]);
    EXPECT_EQ(reward[i], 0) << "the reward at the end is of an episode that nobody reads on";
    if (step != 5) continue;  // the last step of a finished episode
    ended += 1;
    sum += (tokens[i - 2] == 'L') == (actions[i] == 0) ? 1 : -1;
  }
  const auto metrics = source.metric_values();
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].second, 2 * ended) << "two of each environment";
  EXPECT_DOUBLE_EQ(metrics[1].second, sum / ended);
  EXPECT_DOUBLE_EQ(metrics[2].second, 100 * (sum + ended) / 2 / ended);
  EXPECT_EQ(integers(source.next(), "earlier"), (std::vector<std::int64_t>(5, 1)));
}

// Policy, value and entropy losses, with two episodes per row and memory.
TEST(RolloutSource, LossGradientsMatchFiniteDifferences) {
  const Environment maze = world("memory_maze side 2 steps 5");
  const auto model = acting_model(acting_options(5), maze, 4);
  RolloutSource source(rollouts_in(maze, 3, 4, {.epochs = 1}), *model);
  source.next();
  const Batch batch = source.next();
  // Shifts the old probabilities, some of them beyond the clip range.
  const Tensor before = batch.field("log_probabilities");
  for (std::int64_t i = 0; i < before.elements(); ++i)
    before.data<double>()[i] += 0.11 * static_cast<double>(i % 7 - 3) + 0.013;
  for (const std::size_t term : {0, 1, 2})
    testing::expect_layer_gradients(
        model->parameters(),
        [&](const std::vector<Variable>&) {
          const Losses losses =
              model->losses({.fields = batch.fields, .carried = *batch.carried, .max_mem_len = 5},
                            {.training = true, .random = Random(1)});
          EXPECT_EQ(losses.terms.size(), 3u);
          return losses.terms[term].values;
        },
        {},
        {.directions = 1, .elements = 1});
}

// A trainer with its rollouts, as in a run.
struct Learner {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<RolloutSource> source;

  explicit Learner(const Environment& environment,
                   const RolloutOptions& rollouts = {.epochs = 2, .minibatches = 3},
                   std::int64_t memory = 6) {
    TrainingOptions options;
    options.steps = 12;
    options.learning_rate = 0.01;
    trainer = std::make_unique<Trainer>(
        acting_model(acting_options(memory), environment, 4), options, Random(1).child("steps"));
    source =
        std::make_unique<RolloutSource>(rollouts_in(environment, 6, 4, rollouts), trainer->model());
  }
  std::vector<double> steps(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(trainer->step(source->next()).loss);
    return losses;
  }
  void save(const std::filesystem::path& directory) const {
    TrainingState state;
    trainer->save(state, source->cursor_rows());
    source->save_state(state);
    CheckpointInfo info;
    info.run_id = "r";
    save_checkpoint(directory, info, state, Communicator());
  }
  // Restores the checkpoint that `other` saved in the directory.
  void resume(const Learner& other, const std::filesystem::path& directory) {
    const Checkpoint checkpoint = Checkpoint::open(directory / step_name(0));
    trainer->restore(checkpoint, source->cursor_rows(), 6);
    source->restore(other.source->cursors());
    source->load_state(checkpoint);
  }
};

TEST(RolloutSource, ResumesWithinAndBetweenRollouts) {
  const Environment pad = world("numpad side 2 sequence 2 steps 7");
  Learner whole(pad);
  const std::vector<double> expected = whole.steps(15);
  for (const int stopped : {4, 6, 11}) {
    SCOPED_TRACE(stopped);
    const testing::TemporaryDirectory directory;
    Learner first(pad);
    first.steps(stopped);
    TrainingState state;
    first.trainer->save(state, first.source->cursor_rows());
    first.source->save_state(state);
    CheckpointInfo info;
    info.run_id = "r";
    info.step = stopped;
    const auto path = save_checkpoint(directory.path(), info, state, Communicator());
    const Tensor cursors = first.source->cursors();
    const auto metrics = first.source->metric_values();
    Learner second(pad);
    second.steps(3);  // overwritten by the checkpoint
    const Checkpoint checkpoint = Checkpoint::open(path);
    second.trainer->restore(checkpoint, second.source->cursor_rows(), 6);
    second.source->restore(cursors);
    second.source->load_state(checkpoint);
    EXPECT_EQ(second.source->metric_values(), metrics);
    EXPECT_EQ(second.steps(15 - stopped),
              (std::vector<double>(expected.begin() + stopped, expected.end())));
  }
}

TEST(RolloutSource, SupportsOtherEpochsOnlyBetweenRollouts) {
  const Environment t_maze = world("t_maze length 3");
  for (const int stopped : {4, 6}) {
    SCOPED_TRACE(stopped);
    const testing::TemporaryDirectory directory;
    Learner first(t_maze);
    first.steps(stopped);
    first.save(directory.path());
    // The first has as many batches per rollout. The saved batch index exists in both.
    for (const RolloutOptions& other : {RolloutOptions{.epochs = 3, .minibatches = 2},
                                        RolloutOptions{.epochs = 4, .minibatches = 3}}) {
      Learner second(t_maze, other);
      if (stopped == 6)
        EXPECT_NO_THROW(second.resume(first, directory.path()));
      else
        EXPECT_THROW(second.resume(first, directory.path()), DataError);
    }
  }
}

TEST(RolloutSource, RejectsCheckpointWithOtherEnvironment) {
  const testing::TemporaryDirectory directory;
  Learner first(world("t_maze length 3"));
  first.steps(6);
  first.save(directory.path());
  // The saved states are also valid in the longer maze.
  Learner second(world("t_maze length 4"));
  EXPECT_THROW(second.resume(first, directory.path()), DataError);
}

// With less memory the actor still uses the memory that the learner reads.
TEST(RolloutSource, ResumesWithShorterMemory) {
  const Environment pad = world("numpad side 2 sequence 2 steps 7");
  for (const int stopped : {6, 10}) {
    SCOPED_TRACE(stopped);
    const testing::TemporaryDirectory directory;
    Learner first(pad);
    first.steps(stopped);
    first.save(directory.path());
    Learner second(pad, {.epochs = 2, .minibatches = 3}, 3);
    second.resume(first, directory.path());
    if (stopped == 10) {
      EXPECT_EQ(second.source->next().carried->length(), 4) << "what the rollout began with";
      second.source->next();
    }
    const Batch batch = second.source->next();
    EXPECT_EQ(batch.carried->length(), 3);
    const Tensor scores = scores_of(second.trainer->model(), batch);
    const auto chosen = integers(batch, "actions");
    const auto before = reals(batch, "log_probabilities");
    const std::size_t actions = pad.actions.size();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto row = scores.span<double>().subspan(i * (actions + 1), actions);
      double sum = 0;
      for (const double logit : row) sum += std::exp(logit);
      EXPECT_NEAR(row[static_cast<std::size_t>(chosen[i])] - std::log(sum), before[i], 1e-9);
    }
  }
}

// Logits rounded to bf16 would hide the change of one training step.
TEST(RolloutSource, ScoresAreFinerThanBFloat16) {
  const Environment t_maze = world("t_maze length 3");
  const auto model = acting_model(acting_options(4), t_maze, 4, {}, DType::bf16);
  const Tensor scores = scores_of(*model, RolloutSource(rollouts_in(t_maze, 3, 4), *model).next());
  int finer = 0;
  for (const double score : scores.span<double>()) {
    int exponent = 0;
    const double digits = std::ldexp(std::frexp(score, &exponent), 8);  // precision of bf16
    finer += digits != std::round(digits) ? 1 : 0;
  }
  EXPECT_GT(finer, std::ssize(scores.span<double>()) / 2);
}

TEST(RolloutSource, StaggeredRowsStartWithinEpisodes) {
  const Environment t_maze = world("t_maze length 6");
  const auto model = acting_model(acting_options(4), t_maze, 4);
  RolloutContext setting = rollouts_in(t_maze, 4, 4);
  setting.staggered = true;
  const Batch batch = RolloutSource(setting, *model).next();
  EXPECT_EQ(integers(batch, "earlier"), (std::vector<std::int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(integers(batch, "episodes"),
            (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
}

TEST(RolloutSource, MinibatchesSplitEnvironments) {
  const Environment t_maze = world("t_maze length 1");
  const auto model = acting_model(acting_options(4), t_maze, 3);
  RolloutSource whole(rollouts_in(t_maze, 6, 3, {.epochs = 1}), *model);
  RolloutSource parts(rollouts_in(t_maze, 6, 3, {.epochs = 1, .minibatches = 2}), *model);
  whole.next();
  parts.next();
  parts.next();
  const Batch all = whole.next(), even = parts.next(), odd = parts.next();
  ASSERT_EQ(even.rows(), 3);
  for (std::int64_t row = 0; row < 6; ++row) {
    const Batch& of = row % 2 == 0 ? even : odd;
    const auto same = [&](const Tensor& full_rows, const Tensor& some) {
      const Tensor a = full_rows.slice(row, row + 1), b = some.slice(row / 2, row / 2 + 1);
      return std::equal(a.bytes(), a.bytes() + a.byte_size(), b.bytes());
    };
    for (const auto& [name, field] : all.fields) EXPECT_TRUE(same(field, of.field(name))) << name;
    for (std::size_t layer = 0; layer < 2; ++layer)
      EXPECT_TRUE(same(all.carried->tensors[layer].tensor, of.carried->tensors[layer].tensor));
  }
  EXPECT_THROW(RolloutSource(rollouts_in(t_maze, 6, 3, {.minibatches = 4}), *model),
               ConfigurationError);
}

TEST(RolloutSource, RejectsCursorsFromOtherEnvironment) {
  const Environment t_maze = world("t_maze length 9"), shorter = world("t_maze length 1");
  const auto model = acting_model(acting_options(4), t_maze, 4);
  RolloutSource source(rollouts_in(t_maze, 2, 4), *model);
  source.next();
  RolloutSource other(rollouts_in(shorter, 2, 4), *model);
  EXPECT_THROW(other.restore(source.cursors()), DataError);
  RolloutSource maze(rollouts_in(world("memory_maze"), 2, 4), *model);
  EXPECT_THROW(maze.restore(source.cursors()), DataError);
}

}  // namespace
}  // namespace longspan::rollouts_test
