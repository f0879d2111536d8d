#include "framework/data/batching/bucketed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>

#include "framework/data/batch_loader.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/options/options.h"
#include "tests/data/example_files.h"
#include "tests/data/subword_text.h"

namespace longspan::bucketed_source_test {
namespace {

using testing::at;
using ::testing::HasSubstr;
using testing::pairs_of;
using testing::row;
using testing::source_of;

constexpr BucketOptions small = {.batch_tokens = 640, .longest = 0};

// Returns whether the last batch ended an epoch.
bool ends_epoch(const BucketedSource& source) {
  return source.cursors().span<std::int64_t>()[1] == source.batches_of_epoch();
}

// Returns the source texts of nonempty rows for each batch of one epoch.
std::vector<std::vector<std::string>> epoch_of(BucketedSource& source) {
  std::vector<std::vector<std::string>> batches;
  while (true) {
    const Batch batch = source.next();
    std::vector<std::string>& texts = batches.emplace_back();
    for (std::int64_t i = 0; i < batch.rows(); ++i)
      if (at(batch, "length", i) > 0) texts.push_back(source_of(batch, i));
    if (ends_epoch(source)) return batches;
  }
}

std::vector<std::string> sorted(const std::vector<std::vector<std::string>>& batches) {
  std::vector<std::string> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::ranges::sort(all);
  return all;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::ranges::equal(a.span<std::int64_t>(), b.span<std::int64_t>());
}

TEST(BucketedSource, ShufflesEachExampleOncePerEpoch) {
  BucketedSource source(pairs_of(500), small, 7, {});
  const auto first = epoch_of(source);
  const auto second = epoch_of(source);
  std::vector<std::string> expected;
  const TemporaryFile lines(testing::pair_text(500).source);
  std::ifstream file(lines.path());
  for (std::string line; std::getline(file, line);) expected.push_back(line);
  std::ranges::sort(expected);
  EXPECT_EQ(sorted(first), expected);
  EXPECT_EQ(sorted(second), expected);
  EXPECT_NE(first, second);
  EXPECT_GT(first.size(), 30u);
}

TEST(BucketedSource, OrderDependsOnlyOnSeedAndEpoch) {
  BucketedSource a(pairs_of(300), small, 7, {});
  BucketedSource b(pairs_of(300), small, 7, {});
  BucketedSource other(pairs_of(300), small, 8, {});
  const auto first = epoch_of(a);
  EXPECT_EQ(epoch_of(b), first);
  EXPECT_NE(epoch_of(other), first);
  const auto second = epoch_of(a);
  EXPECT_EQ(epoch_of(b), second);
}

TEST(BucketedSource, BatchesRespectTokenBudgetWithLittlePadding) {
  BucketedSource source(pairs_of(3000), {.batch_tokens = 2000, .longest = 0}, 1, {});
  std::int64_t padded = 0;
  std::int64_t real = 0;
  for (std::int64_t i = 0; i < source.batches_of_epoch(); ++i) {
    const Batch batch = source.next();
    const std::int64_t columns =
        batch.field("source").shape()[1] + batch.field("tokens").shape()[1];
    EXPECT_LE(batch.rows() * columns, 2000);
    EXPECT_EQ(batch.field("source").shape()[1] % 8, 0);
    EXPECT_EQ(batch.field("targets").shape()[1] % 8, 0);
    EXPECT_TRUE(batch.resets_state);
    padded += batch.rows() * columns;
    real += batch.count("tokens") + batch.count("source_tokens");
  }
  // Lengths average 25, so rounding to multiples of 8 alone wastes about 4 of 29 positions.
  EXPECT_GT(static_cast<double>(real) / static_cast<double>(padded), 0.75);
}

TEST(BucketedSource, GlobalBatchesAreEqualOnEveryLayout) {
  BucketedSource whole(pairs_of(200), small, 3, {});
  for (const auto& [ranks, accumulation] : {std::pair{2, 1}, {3, 2}, {8, 4}}) {
    whole.restore(Tensor::from<std::int64_t>(
        std::vector<std::int64_t>{0, 0}, {1, 2}, Device::cpu(), MemoryTag::workspace));
    std::vector<std::unique_ptr<BucketedSource>> parts;
    for (int rank = 0; rank < ranks; ++rank)
      parts.push_back(std::make_unique<BucketedSource>(
          pairs_of(200), small, 3, BatchShard{rank, ranks, accumulation}));
    for (int i = 0; i < 20; ++i) {
      const Batch all = whole.next();
      std::int64_t global = 0;
      std::map<std::string, std::int64_t, std::less<>> counts;
      for (int rank = 0; rank < ranks; ++rank) {
        const Batch part = parts[static_cast<std::size_t>(rank)]->next();
        EXPECT_EQ(part.first_row, global);
        EXPECT_EQ(part.first_row, rank * part.rows());
        EXPECT_EQ(part.rows() % accumulation, 0);
        for (const auto& [name, count] : part.counts) counts[name] += count;
        for (std::int64_t row = 0; row < part.rows(); ++row, ++global) {
          for (const auto& [name, field] : part.fields) {
            const Tensor mine = field.slice(row, row + 1);
            if (global < all.rows())
              EXPECT_TRUE(equal(mine, all.field(name).slice(global, global + 1))) << name;
            else
              EXPECT_TRUE(equal(mine, full_tensor(mine.shape(), name == "targets" ? -1 : 0)))
                  << name;
          }
        }
      }
      EXPECT_GE(global, all.rows());
      EXPECT_LT(global - all.rows(), ranks * accumulation);
      EXPECT_EQ(counts, all.counts);
    }
  }
}

TEST(BucketedSource, ResumesMidEpochOnAnyLayout) {
  BucketedSource source(pairs_of(300), small, 5, {});
  epoch_of(source);
  for (int i = 0; i < 7; ++i) source.next();
  EXPECT_EQ(source.next().place, "at position 7 of epoch 1");
  const Tensor cursors = source.cursors();
  EXPECT_TRUE(source.cursor_rows().shared);
  EXPECT_EQ(source.cursor_rows().total, 1);
  BucketedSource same(pairs_of(300), small, 5, {});
  BucketedSource second_of_two(pairs_of(300), small, 5, {1, 2, 1});
  same.restore(cursors);
  second_of_two.restore(cursors);
  for (int i = 0; i < 60; ++i) {  // into the next epoch
    const Batch batch = source.next();
    const Batch again = same.next();
    EXPECT_EQ(again.place, batch.place);
    for (const auto& [name, field] : batch.fields) EXPECT_TRUE(equal(field, again.field(name)));
    const Batch part = second_of_two.next();
    for (std::int64_t row = part.first_row; row < batch.rows(); ++row)
      EXPECT_EQ(source_of(part, row - part.first_row), source_of(batch, row));
  }
}

TEST(BucketedSource, ResumesAtNextEpochIfBatchesChanged) {
  const auto cursors_after = [](int batches) {
    BucketedSource source(pairs_of(100), small, 5, {});
    for (int i = 0; i < batches; ++i) source.next();
    return source.cursors();
  };
  const auto all = static_cast<int>(cursors_after(0).span<std::int64_t>()[2]);
  ASSERT_GT(all, 3);
  BucketOptions fewer = small;
  fewer.batch_tokens = 500;
  BucketOptions wider = small;
  wider.length_multiple = 16;
  const auto resumed = [](const BucketOptions& options,
                          std::uint64_t seed,
                          const Tensor& cursors,
                          std::string& note) {
    BucketedSource source(pairs_of(100), options, seed, {1, 2, 1});
    source.restore(cursors);
    note = source.restore_warning();
    const auto now = source.cursors();
    return std::pair(now.span<std::int64_t>()[0], now.span<std::int64_t>()[1]);
  };
  std::string note;
  using Point = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(resumed(small, 5, cursors_after(3), note), (Point{0, 3}));
  EXPECT_EQ(note, "");
  for (const auto& [options, seed] :
       {std::pair(fewer, 5), std::pair(wider, 5), std::pair(small, 6)}) {
    const auto number = static_cast<std::uint64_t>(seed);
    EXPECT_EQ(resumed(options, number, cursors_after(3), note), (Point{1, 0}));
    EXPECT_THAT(note,
                HasSubstr(fmt::format("resuming at the start of epoch 1, skipping the rest of "
                                      "epoch 0 after 3 of {} batches",
                                      all)));
    // No examples are skipped at the boundary of an epoch.
    EXPECT_EQ(resumed(options, number, cursors_after(0), note), (Point{0, 0}));
    EXPECT_EQ(note, "");
    EXPECT_EQ(resumed(options, number, cursors_after(all), note), (Point{1, 0}));
    EXPECT_EQ(note, "");
  }
  // Cursors of an older version lack the number of batches, and may exceed it.
  const auto old_cursor = [](std::int64_t batches) {
    const std::array<std::int64_t, 2> state = {0, batches};
    return Tensor::from<std::int64_t>(state, {1, 2}, Device::cpu(), MemoryTag::workspace);
  };
  EXPECT_EQ(resumed(small, 5, old_cursor(0), note), (Point{0, 0}));
  EXPECT_EQ(note, "");
  for (const int batches : {3, all + 5}) {
    EXPECT_EQ(resumed(small, 5, old_cursor(batches), note), (Point{1, 0}));
    EXPECT_THAT(note, HasSubstr(fmt::format("the rest of epoch 0 after {} batches", batches)));
  }
}

TEST(SortedBatches, LimitsTokensAndRows) {
  const std::vector<std::int64_t> tokens = {3, 8, 0, 8, 1, 2};
  const auto batches = [&](std::int64_t budget, std::int64_t max_rows) {
    return examples_of(sorted_batches(
        std::ssize(tokens),
        [&](std::int64_t i) -> Lengths {
          return {0, tokens[static_cast<std::size_t>(i)]};
        },
        budget,
        max_rows));
  };
  using Batches = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(batches(16, 9), (Batches{{1, 3}, {0, 5, 4}}));
  EXPECT_EQ(batches(16, 2), (Batches{{1, 3}, {0, 5}, {4}}));
  EXPECT_EQ(batches(4, 9), (Batches{{1}, {3}, {0}, {5, 4}}));
}

TEST(BucketedSource, RejectsInvalidCursors) {
  BucketedSource source(pairs_of(100), small, 5, {});
  const auto at_cursor = [&](std::vector<std::int64_t> values) {
    return message_of<DataError>([&] {
      source.restore(Tensor::from<std::int64_t>(
          values, {1, std::ssize(values)}, Device::cpu(), MemoryTag::workspace));
    });
  };
  EXPECT_THAT(at_cursor({0, 1000, 999, 1}),
              HasSubstr("resumes at batch 1000 of epoch 0, but an epoch has 999 batches"));
  EXPECT_THAT(at_cursor({-1, 0}), HasSubstr("the checkpoint resumes at batch 0 of epoch -1"));
  EXPECT_THAT(at_cursor({0, 1, 2}),
              HasSubstr("expected data positions of shape [1, 4] and dtype i64"));
  EXPECT_EQ(at_cursor({4, 2}), "");
}

TEST(BucketedSource, TruncatesSkipsOrRejectsOverlongExamples) {
  const auto pairs = pairs_of("ab\nabcdefghijkl\nabc\n", "x\ny\nz\n");
  const auto sources = [&](OverlongPolicy too_long, std::string& note) {
    BucketedSource source(pairs, {.batch_tokens = 64, .longest = 10, .too_long = too_long}, 1, {});
    note = source.lengths().describe();
    return sorted(epoch_of(source));
  };
  std::string note;
  EXPECT_THAT(sources(OverlongPolicy::truncate, note),
              ::testing::ElementsAre("ab", "abc", "abcdefghij"));
  EXPECT_THAT(note,
              HasSubstr("1 of 3 examples exceed data.max_length = 10 tokens and are truncated"));
  EXPECT_THAT(sources(OverlongPolicy::skip, note), ::testing::ElementsAre("ab", "abc"));
  EXPECT_THAT(note, HasSubstr("and are skipped"));
  EXPECT_THAT(message_of<DataError>([&] { sources(OverlongPolicy::error, note); }),
              HasSubstr(":2: expected at most data.max_length = 10 tokens, found 12"));
  EXPECT_THAT(
      message_of<DataError>([&] {
        BucketedSource(
            pairs, {.batch_tokens = 64, .longest = 1, .too_long = OverlongPolicy::skip}, 1, {});
      }),
      HasSubstr("all 3 examples exceed data.max_length = 1 tokens"));
}

TEST(BucketedSource, RejectsTokenBudgetBelowLongestExample) {
  EXPECT_THAT(message_of<DataError>([] {
                BucketedSource(
                    pairs_of("ab\nabcdefghijkl\n", "x\ny\n"), {.batch_tokens = 23}, 1, {});
              }),
              HasSubstr(":2: expected at most data.global_batch_tokens = 23 tokens with padding"));
}

TEST(BucketedSource, Batches200000ExamplesWithin30CpuSeconds) {
  const std::clock_t begin = std::clock();  // processor time
  BucketedSource source(pairs_of(200000), {.batch_tokens = 8192, .longest = 0}, 1, {});
  std::set<std::string> seen;
  for (const auto& batch : epoch_of(source)) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 200000u);
  EXPECT_LT(std::clock() - begin, 30 * CLOCKS_PER_SEC);
}

TEST(BucketedSource, SamplesSubwordsBySeedEpochAndExample) {
  const auto tokenizer = Tokenizer::subwords(subword_model(SentencePieceModelType::unigram, 300));
  const std::string text = subword_text(60, 2);
  const auto pairs = pairs_of(text, text, tokenizer);
  const BucketOptions options = {.batch_tokens = 4096, .subword_sampling = 0.1};
  const auto lines_of = [&](BucketedSource& source) {
    std::map<std::string, std::vector<std::int64_t>> ids;  // by text
    do {
      const Batch batch = source.next();
      for (std::int64_t i = 0; i < batch.rows(); ++i) {
        if (at(batch, "length", i) == 0) continue;
        const auto tokens = row(batch, "source", i, at(batch, "source_length", i));
        ids[tokenizer.decode(tokens)] = tokens;
      }
    } while (!ends_epoch(source));
    return ids;
  };
  BucketedSource once(pairs, options, 1, {});
  BucketedSource again(pairs, options, 1, {});
  const auto first = lines_of(once);
  EXPECT_EQ(first.size(), 60u);  // every text round-trips
  EXPECT_EQ(lines_of(again), first);
  EXPECT_NE(lines_of(once), first);
  // Samples depend on the position, not on earlier samples.
  BucketedSource late(pairs, options, 1, {});
  late.restore(Tensor::from<std::int64_t>(
      std::vector<std::int64_t>{1, 0}, {1, 2}, Device::cpu(), MemoryTag::workspace));
  EXPECT_EQ(lines_of(late), lines_of(again));
  BucketedSource usual(pairs, {.batch_tokens = 4096}, 1, {});
  std::size_t others = 0;
  for (const auto& [line, ids] : lines_of(usual)) others += first.at(line) != ids ? 1 : 0;
  EXPECT_GT(others, 20u);
}

TEST(SequentialReader, ReturnsEachExampleOnceLongestFirst) {
  const auto pairs = pairs_of(150);
  std::vector<int> seen(150);
  for (int rank = 0; rank < 2; ++rank) {
    SequentialReader reader(pairs, small, {rank, 2, 1});
    std::int64_t before = 1000;
    while (!reader.done()) {
      const Batch batch = reader.next();
      EXPECT_LE(batch.field("tokens").shape()[1], before);
      before = batch.field("tokens").shape()[1];
      for (std::int64_t i = 0; i < batch.rows(); ++i) {
        const std::int64_t index = at(batch, "index", i);
        EXPECT_EQ(index == -1, at(batch, "length", i) == 0);
        if (index < 0) continue;
        ++seen[static_cast<std::size_t>(index)];
        EXPECT_EQ(std::stoll(source_of(batch, i)), index);
      }
    }
    reader.rewind();
    EXPECT_FALSE(reader.done());
  }
  EXPECT_EQ(seen, std::vector<int>(150, 1));
}

TEST(SequentialReader, SamplesAllLengthsOnAnyLayout) {
  const auto pairs = pairs_of(1000);
  const auto sample_of = [&](std::int64_t batches, std::uint64_t seed, BatchShard division) {
    std::set<std::int64_t> found;
    for (; division.rank < division.ranks; ++division.rank) {
      SequentialReader reader(pairs, small, division, {.batches = batches, .seed = seed});
      EXPECT_LE(reader.batches(), batches);
      while (!reader.done()) {
        const Batch batch = reader.next();
        for (std::int64_t i = 0; i < batch.rows(); ++i)
          if (at(batch, "index", i) >= 0) found.insert(at(batch, "index", i));
      }
      EXPECT_EQ(reader.coverage().all, 1000);
      if (division.rank + 1 == division.ranks) {
        EXPECT_EQ(reader.coverage().read, std::ssize(found));
      }
    }
    return found;
  };
  const auto some = sample_of(20, 1, {0, 1, 1});
  EXPECT_EQ(sample_of(20, 1, {0, 4, 2}), some);  // on any layout
  EXPECT_NE(sample_of(20, 2, {0, 1, 1}), some);
  const auto mean_of = [&](const auto& examples) {
    double sum = 0;
    for (const std::int64_t i : examples) sum += static_cast<double>(pairs->lengths(i).target);
    return sum / static_cast<double>(examples.size());
  };
  const auto all = sample_of(100000, 1, {0, 1, 1});
  EXPECT_EQ(all.size(), 1000u);
  EXPECT_NEAR(mean_of(some), mean_of(all), 0.15 * mean_of(all));
  // A larger limit adds a batch.
  EXPECT_GT(sample_of(21, 1, {0, 1, 1}).size(), some.size());
  EXPECT_GE(sample_of(1, 1, {0, 1, 1}).size(), 1u);
}

TEST(SequentialReader, TruncatesExamplesThatTrainingSkips) {
  SequentialReader reader(pairs_of("ab\nabcdefghijkl\n", "x\ny\n"),
                          {.batch_tokens = 64, .longest = 10, .too_long = OverlongPolicy::skip},
                          {});
  const Batch batch = reader.next();
  EXPECT_EQ(batch.count("rows"), 2);
  EXPECT_TRUE(reader.done());
  EXPECT_THAT(reader.lengths().describe(), HasSubstr("are truncated"));
  EXPECT_EQ(reader.coverage().text(), "; 1 truncated to data.max_length = 10 tokens");
}

TEST(BucketedSource, BatchLoaderPreservesBatchesAndCursors) {
  BucketedSource source(pairs_of(100), small, 5, {});
  BatchLoader loader(std::make_unique<BucketedSource>(pairs_of(100), small, 5, BatchShard{}));
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(equal(loader.next().field("tokens"), source.next().field("tokens")));
    EXPECT_TRUE(equal(loader.cursors(), source.cursors()));
  }
}

TEST(BucketOptions, ParsesDataKeys) {
  BucketOptions options;
  OptionTable table;
  declare(table, options);
  const auto give = [&table](const std::string& key, const std::string& text) {
    table.assign(std::vector<Assignment>{
        {.key = key, .kind = Assignment::Kind::scalar, .scalars = {{text}}, .mark = {}}});
  };
  give("data.global_batch_tokens", "4096");
  give("data.overlong_examples", "skip");
  give("data.tokenizer.sampling_alpha", "0.2");
  table.finish();
  EXPECT_EQ(options.batch_tokens, 4096);
  EXPECT_EQ(options.too_long, OverlongPolicy::skip);
  EXPECT_EQ(options.subword_sampling, 0.2);
}

TEST(BucketOptions, RequiresLengthMultipleForContextMesh) {
  EXPECT_EQ(validate_context({}, 1), "");
  EXPECT_EQ(validate_context({}, 4), "");
  EXPECT_THAT(validate_context({}, 8), HasSubstr("expected a multiple of 16"));
}

}  // namespace
}  // namespace longspan::bucketed_source_test
