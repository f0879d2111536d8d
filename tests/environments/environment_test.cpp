// Environments: the observations determine the scored actions.
#include "framework/environments/environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "framework/core/error.h"

namespace longspan::environment_test {
namespace {

Environment environment(const std::string& text) { return parse_environment(text, "world.txt"); }

std::string rejection(const std::string& text) {
  try {
    environment(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

const std::string all[] = {"t_maze", "memory_maze", "numpad", "associative_recall"};

TEST(Environment, EpisodesDependOnlyOnTheirRandomNumbers) {
  for (const std::string& name : all) {
    SCOPED_TRACE(name);
    const Environment world = environment(name), again = environment(name);
    std::map<std::string, int> lives;
    for (std::uint64_t episode = 0; episode < 50; ++episode) {
      const Episode life = world.episode(Random(3).child(episode));
      const Episode same = again.episode(Random(3).child(episode));
      EXPECT_EQ(life.observations, same.observations);
      EXPECT_EQ(life.actions, same.actions);
      ASSERT_EQ(std::ssize(life.observations), world.steps);
      ASSERT_EQ(std::ssize(life.actions), world.steps);
      for (const std::int64_t action : life.actions)
        EXPECT_TRUE(action >= no_action && action < std::ssize(world.actions));
      ++lives[life.observations];
    }
    EXPECT_GE(lives.size(), name == "t_maze" ? 2u : 40u) << "episodes differ";
    EXPECT_TRUE(std::ranges::is_sorted(world.actions));
  }
}

TEST(Environment, TMazeExpertFollowsSign) {
  const Environment world = environment("t_maze length 3");
  EXPECT_EQ(world.steps, 5);
  bool seen[2] = {};
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const Episode life = world.episode(Random(1).child(episode));
    const std::int64_t way = life.observations[0] == 'L' ? 0 : 1;
    EXPECT_EQ(life.observations, (way == 0 ? "L...?" : "R...?"));
    EXPECT_EQ(life.actions, (std::vector<std::int64_t>{-1, -1, -1, -1, way}));
    seen[way] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

// The last capital letter observed determines every scored move.
TEST(Environment, MemoryMazeExpertMovesToObservedGoal) {
  const Environment world = environment("memory_maze side 5 steps 120");
  int asked = 0, found = 0;
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const Episode life = world.episode(Random(1).child(episode));
    std::int64_t goal = -1;
    for (std::size_t i = 0; i < life.observations.size(); ++i) {
      const char seen = life.observations[i];
      if (seen < 'a') {
        EXPECT_TRUE(goal == -1 || goal == seen - 'A') << "the place stays where it is";
        goal = seen - 'A';
        ++found;
      }
      EXPECT_EQ(life.actions[i] == no_action, seen < 'a' || goal == -1);
      if (life.actions[i] == no_action) continue;
      ++asked;
      const std::int64_t cell = seen - 'a', across = goal % 5 - cell % 5;
      const std::string move = across > 0    ? "right"
                               : across < 0  ? "left"
                               : goal > cell ? "down"
                                             : "up";
      EXPECT_EQ(world.actions[static_cast<std::size_t>(life.actions[i])], move);
      const std::int64_t to = cell + (move == "right"  ? 1
                                      : move == "left" ? -1
                                      : move == "down" ? 5
                                                       : -5);
      if (i + 1 < life.observations.size()) {
        EXPECT_EQ(std::tolower(life.observations[i + 1]) - 'a', to);
      }
    }
  }
  EXPECT_GT(asked, 200);
  EXPECT_GT(found, 60);
}

// The correct keys observed so far determine every scored key.
TEST(Environment, NumpadExpertRepeatsCorrectKeys) {
  constexpr std::size_t length = 4;
  const Environment world = environment("numpad side 3 sequence 4 steps 80");
  int asked = 0, completed = 0;
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const Episode life = world.episode(Random(1).child(episode));
    std::vector<std::int64_t> known(length, no_action);
    std::size_t place = 0;
    for (std::size_t i = 0; i < life.observations.size(); ++i) {
      const char seen = life.observations[i];
      EXPECT_EQ(seen == '*', i == 0);
      if (seen >= 'a') place = 0;
      if (seen >= 'A' && seen < 'a') {
        EXPECT_TRUE(known[place] == no_action || known[place] == seen - 'A');
        if (place > 0) {
          const auto adjacent = neighbors_of(known[place - 1], 3);
          EXPECT_TRUE(std::ranges::count(adjacent, seen - 'A') == 1);
        }
        known[place] = seen - 'A';
        completed += place + 1 == length ? 1 : 0;
        place = (place + 1) % length;
      }
      EXPECT_EQ(life.actions[i], known[place]) << "step " << i << " of " << life.observations;
      asked += life.actions[i] != no_action ? 1 : 0;
    }
  }
  EXPECT_GT(asked, 400);
  EXPECT_GT(completed, 60);
}

// The pairs observed before the queries determine every scored action.
TEST(Environment, RecallExpertAnswersWithValueOfKey) {
  constexpr std::size_t pairs = 94;
  const Environment world = environment("associative_recall pairs 94 values 128");
  EXPECT_EQ(world.steps, 282);
  EXPECT_EQ(world.actions.size(), 128U);
  std::set<std::int64_t> answers;
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const Episode life = world.episode(Random(1).child(episode));
    std::string keys, queries = life.observations.substr(2 * pairs);
    std::map<char, std::int64_t> value_of;
    for (std::size_t i = 0; i < 2 * pairs; i += 2) {
      keys += life.observations[i];
      EXPECT_TRUE(keys.back() >= '!' && keys.back() <= '~');
      const auto value = static_cast<unsigned char>(life.observations[i + 1]);
      EXPECT_GE(value, 128);
      value_of[keys.back()] = value - 128;
      EXPECT_EQ(life.actions[i], no_action);
      EXPECT_EQ(life.actions[i + 1], no_action);
    }
    EXPECT_EQ(value_of.size(), pairs) << "keys differ";
    for (std::size_t i = 0; i < pairs; ++i)
      EXPECT_EQ(life.actions[2 * pairs + i], value_of.at(queries[i]));
    answers.insert(life.actions.begin() + 2 * pairs, life.actions.end());
    EXPECT_NE(queries, keys) << "queries have another order";
    EXPECT_TRUE(std::ranges::is_permutation(queries, keys));
  }
  EXPECT_EQ(answers.size(), world.actions.size());
}

TEST(Environment, RecallRewardsEachAnswer) {
  const Environment world = environment("associative_recall pairs 3 values 5");
  for (const bool fails : {false, true}) {
    const Random random(6);
    WorldState now = world.begin(random);
    const auto advise = world.guide(random);
    EnvStep outcome;
    double reward = 0;
    for (int step = 0; step < 9; ++step) {
      EXPECT_EQ(outcome.ending, Termination::none);
      EXPECT_FALSE(world.succeeded(now));
      const std::int64_t answer = advise(now).taken;
      outcome = world.act(now, fails && step == 7 ? (answer + 1) % 5 : answer, random);
      reward += outcome.reward;
    }
    EXPECT_EQ(outcome.ending, Termination::terminal);
    EXPECT_EQ(reward, fails ? 2 : 3);
    EXPECT_EQ(world.succeeded(now), !fails);
  }
}

// Returns the observations, rewards and outcome of an episode with random actions.
std::string acted(const Environment& world,
                  const Random& random,
                  std::uint64_t from,
                  WorldState now) {
  std::string trace;
  for (std::uint64_t step = from;; ++step) {
    EXPECT_EQ(now.size(), world.numbers);
    trace += world.observation(now);
    const auto count = static_cast<std::uint32_t>(world.actions.size());
    const auto action = static_cast<std::int64_t>(Random(9).word(step) % count);
    const EnvStep outcome = world.act(now, action, random);
    trace += outcome.reward > 0 ? '+' : outcome.reward < 0 ? '-' : ' ';
    if (outcome.ending != Termination::none) return trace + (world.succeeded(now) ? "!" : "");
  }
}

TEST(Environment, EpisodeContinuesFromItsState) {
  for (const std::string& name : all) {
    SCOPED_TRACE(name);
    const Environment world = environment(name), again = environment(name);
    const Random random = Random(3).child(std::uint64_t{1});
    WorldState now = world.begin(random);
    std::string trace;
    for (std::uint64_t step = 0; step < 5; ++step) {
      trace += again.observation(now);
      const auto count = static_cast<std::uint32_t>(world.actions.size());
      const auto action = static_cast<std::int64_t>(Random(9).word(step) % count);
      const EnvStep outcome = again.act(now, action, random);
      EXPECT_EQ(outcome.ending, Termination::none);
      trace += outcome.reward > 0 ? '+' : outcome.reward < 0 ? '-' : ' ';
    }
    EXPECT_EQ(acted(world, random, 0, world.begin(random)), trace + acted(again, random, 5, now));
  }
}

TEST(Environment, TMazeRewardsTurnInDirectionShown) {
  const Environment world = environment("t_maze length 1");
  const Random random(2);
  for (const std::int64_t turn : {0, 1}) {
    WorldState now = world.begin(random);
    const bool is_right = (world.observation(now) == 'L') == (turn == 0);
    for (int step = 0; step < 2; ++step) {
      const EnvStep on_the_way = world.act(now, 1 - turn, random);
      EXPECT_EQ(on_the_way.reward, 0);
      EXPECT_EQ(on_the_way.ending, Termination::none);
      EXPECT_FALSE(world.succeeded(now));
    }
    const EnvStep last = world.act(now, turn, random);
    EXPECT_EQ(last.reward, is_right ? 1 : -1);
    EXPECT_EQ(last.ending, Termination::terminal);
    EXPECT_EQ(world.succeeded(now), is_right);
  }
}

// Each capital letter gives a reward. Success is a goal found twice or a sequence pressed twice.
// Episodes end at the step limit.
TEST(Environment, GuideSucceedsInMostEpisodes) {
  for (const std::string name : {"memory_maze", "numpad"}) {
    SCOPED_TRACE(name);
    const Environment world = environment(name);
    int successes = 0;
    for (std::uint64_t episode = 0; episode < 20; ++episode) {
      const Random random = Random(1).child(episode);
      WorldState now = world.begin(random);
      const auto advise = world.guide(random);
      EnvStep outcome;
      std::int64_t steps = 0;
      double reward = 0;
      for (; outcome.ending == Termination::none; ++steps) {
        outcome = world.act(now, advise(now).taken, random);
        const char seen = world.observation(now);
        EXPECT_EQ(outcome.reward, seen >= 'A' && seen < 'a' ? 1 : 0);
        reward += outcome.reward;
      }
      EXPECT_EQ(outcome.ending, Termination::time);
      EXPECT_EQ(steps, world.steps);
      if (name == "memory_maze") {
        EXPECT_EQ(world.succeeded(now), reward >= 2);
      } else if (world.succeeded(now)) {
        EXPECT_GE(reward, 8);
      }
      successes += world.succeeded(now) ? 1 : 0;
    }
    EXPECT_GT(successes, 10);
  }
}

TEST(Environment, MemoryMazeWallsBlockMoves) {
  const Environment world = environment("memory_maze side 3 steps 200");
  const Random random(4);
  WorldState now = world.begin(random);
  for (int step = 0; step < 199; ++step) {
    const char before = world.observation(now);
    world.act(now, 3, random);
    const char after = world.observation(now);
    if (before >= 'a' && before < 'd') {
      EXPECT_EQ(after, before) << "there is nothing above the first row";
    }
  }
}

TEST(Environment, ParsesDescriptionsAndReportsErrors) {
  EXPECT_EQ(environment("t_maze").steps, 12);
  EXPECT_EQ(environment("# a long one\nt_maze\n  length 500  # steps\n").steps, 502);
  EXPECT_EQ(environment("numpad steps 9\n").steps, 9);
  EXPECT_EQ(rejection(" # nothing"),
            "world.txt: expected the name of an environment and its parameters, found nothing");
  EXPECT_EQ(rejection("t_mase length 3"),
            "world.txt: unknown environment \"t_mase\" (choices: t_maze, memory_maze, "
            "numpad, associative_recall)");
  EXPECT_EQ(rejection("t_maze lenght 3"),
            "world.txt: unknown parameter \"lenght\" of t_maze (choices: length)");
  EXPECT_EQ(rejection("memory_maze side 9"),
            "world.txt: side: expected a number from 2 to 5, found \"9\"");
  EXPECT_EQ(rejection("memory_maze side"),
            "world.txt: side: expected a number from 2 to 5, found \"\"");
  EXPECT_EQ(rejection("t_maze length 3x"),
            "world.txt: length: expected a number from 0 to 16777216, found \"3x\"");
  EXPECT_EQ(rejection("t_maze length 3 length 4"), "world.txt: duplicate parameter length");
  const std::string word(100'000, 'x');
  for (const std::string& text : {word, "t_maze " + word, "t_maze length " + word})
    EXPECT_LT(rejection(text).size(), 300U);
}

}  // namespace
}  // namespace longspan::environment_test
