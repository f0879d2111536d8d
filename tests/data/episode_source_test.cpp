// Batches of episodes: equal on every layout, and exact after resuming.
#include "framework/data/episode_source.h"

#include <gtest/gtest.h>

namespace longspan::episode_source_test {
namespace {

using Ids = std::vector<std::int64_t>;

Ids ids_of(const Tensor& tensor) {
  const auto values = tensor.span<std::int64_t>();
  return {values.begin(), values.end()};
}

const EpisodeLayout layout = {.streams = 4, .segment = 5};

EpisodeSource source_of(int rank = 0, int ranks = 1) {
  return {
      parse_environment("numpad steps 13", "world"), layout, Random(7), rank, ranks, Device::cpu()};
}

// Episodes of seven counted steps, some of which request an action.
Environment counting_world() {
  return {.description = "a count",
          .actions = {"a", "b"},
          .steps = 7,
          .numbers = 1,
          .begin = [](const Random&) { return WorldState{0}; },
          .observation = [](const WorldState& now) { return static_cast<char>('0' + now[0]); },
          .act = [](WorldState& now, std::int64_t, const Random&) -> EnvStep {
            return {.ending = ++now[0] == 7 ? Termination::time : Termination::none};
          },
          .succeeded = [](const WorldState&) { return true; },
          .guide =
              [](const Random&) {
                return [](const WorldState& now) -> ExpertAction {
                  const std::int64_t asked[] = {-1, 0, 1, -1, -1, 1, 0};
                  return {.asked = asked[now[0]]};
                };
              }};
}

TEST(EpisodeSource, AlignsEpisodesToSegmentsAndPadsTheirEnd) {
  EpisodeSource source(counting_world(), layout, Random(1), 0, 1, Device::cpu());
  for (int episode = 0; episode < 2; ++episode) {
    const Batch first = source.next();
    EXPECT_EQ(ids_of(first.field("tokens").slice(0, 1)), (Ids{'0', '1', '2', '3', '4'}));
    EXPECT_EQ(ids_of(first.field("targets").slice(3, 4)), (Ids{-1, 0, 1, -1, -1}));
    EXPECT_EQ(ids_of(first.field("earlier")), (Ids{0, 0, 0, 0}));
    EXPECT_EQ(first.count("tokens"), 8);
    const Batch second = source.next();
    EXPECT_EQ(ids_of(second.field("tokens").slice(2, 3)), (Ids{'5', '6', 0, 0, 0}));
    EXPECT_EQ(ids_of(second.field("targets").slice(2, 3)), (Ids{1, 0, -1, -1, -1}));
    EXPECT_EQ(ids_of(second.field("earlier")), (Ids{5, 5, 5, 5}));
    EXPECT_EQ(second.count("tokens"), 8);
    EXPECT_EQ(second.count("rows"), 4);
  }
}

TEST(EpisodeSource, StaggersStreamStarts) {
  EpisodeLayout staggered = layout;
  staggered.staggered = true;
  const Environment world = parse_environment("numpad steps 13", "world");
  EpisodeSource source(world, staggered, Random(7), 0, 1, Device::cpu());
  EpisodeSource whole = source_of();
  const Batch first = source.next();
  EXPECT_EQ(ids_of(first.field("earlier")), (Ids{0, 5, 10, 0}));
  for (std::int64_t segment = 0; segment < 3; ++segment) {
    const Batch batch = whole.next();
    EXPECT_EQ(ids_of(first.field("tokens").slice(segment, segment + 1)),
              ids_of(batch.field("tokens").slice(segment, segment + 1)));
  }
}

TEST(EpisodeSource, RanksReadRowsOfGlobalBatch) {
  EpisodeSource whole = source_of();
  EpisodeSource parts[] = {source_of(0, 2), source_of(1, 2)};
  for (int batch = 0; batch < 7; ++batch) {
    const Batch all = whole.next();
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const Batch part = parts[rank].next();
      EXPECT_EQ(part.first_row, 2 * rank);
      for (const auto& [name, field] : part.fields)
        EXPECT_EQ(ids_of(field), ids_of(all.field(name).slice(2 * rank, 2 * rank + 2))) << name;
    }
  }
}

TEST(EpisodeSource, ResumesExactlyOnDifferentRankCount) {
  for (int before = 0; before < 5; ++before) {
    EpisodeSource source = source_of();
    for (int batch = 0; batch < before; ++batch) source.next();
    const Tensor cursors = source.cursors();
    EpisodeSource second = source_of(1, 2);
    second.restore(cursors.slice(2, 4));
    for (int batch = 0; batch < 4; ++batch) {
      const Batch expected = source.next(), found = second.next();
      EXPECT_EQ(ids_of(found.field("tokens")), ids_of(expected.field("tokens").slice(2, 4)));
      EXPECT_EQ(ids_of(found.field("earlier")), ids_of(expected.field("earlier").slice(2, 4)));
    }
  }
}

TEST(EpisodeSource, ResumesIfSegmentLengthDividesPosition) {
  EpisodeSource source = source_of();
  source.next();
  source.next();  // 10 steps of 13
  const auto others = [](std::int64_t segment) {
    EpisodeLayout other = layout;
    other.segment = segment;
    return EpisodeSource(
        parse_environment("numpad steps 13", "world"), other, Random(7), 0, 1, Device::cpu());
  };
  EpisodeSource shorter = others(2);
  shorter.restore(source.cursors());
  const Batch expected = source.next(), found = shorter.next();
  EXPECT_EQ(ids_of(found.field("earlier")), (Ids{10, 10, 10, 10}));
  for (std::int64_t row = 0; row < 4; ++row) {
    Ids start = ids_of(expected.field("tokens").slice(row, row + 1));
    start.resize(2);
    EXPECT_EQ(ids_of(found.field("tokens").slice(row, row + 1)), start);
  }
  EpisodeSource none = others(4), again = source_of();
  again.next();
  again.next();
  EXPECT_THROW(none.restore(again.cursors()), DataError);
}

TEST(EpisodeSource, RejectsInvalidCursors) {
  EpisodeSource source = source_of();
  const Ids wrong = {0, 0, 0, 3, 0, 0, 0, 0};
  EXPECT_THROW(source.restore(Tensor::from<std::int64_t>(wrong, {4, 2}, Device::cpu())), DataError);
  EXPECT_THROW(source.restore(Tensor::from<std::int64_t>(wrong, {2, 4}, Device::cpu())), DataError);
}

}  // namespace
}  // namespace longspan::episode_source_test
