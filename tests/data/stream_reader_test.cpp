#include "framework/data/corpus/stream_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"
#include "tests/support/process_bytes.h"
#include "tests/support/sanitizers.h"

namespace longspan::stream_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string numbered(int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(i));
  return text;
}

std::vector<std::int64_t> values(const Tensor& tensor) {
  const auto span = tensor.span<std::int64_t>();
  return {span.begin(), span.end()};
}

class StreamSourceTest : public ::testing::Test {
 protected:
  StreamSource reader(const StreamLayout& layout, int rank = 0, int ranks = 1) {
    return StreamSource(corpus_, layout, rank, ranks, Device::cpu());
  }

  TemporaryFile file_{numbered(102)};
  Corpus corpus_{file_.path(), Tokenizer()};
};

TEST_F(StreamSourceTest, EachRowFollowsItsOwnStream) {
  // 102 tokens in 4 streams of 25: streams begin at 0, 25, 50 and 75.
  StreamSource streams = reader({.streams = 4, .segment = 3});
  Batch first = streams.next();
  EXPECT_THAT(values(first.field("tokens")),
              ElementsAre(0, 1, 2, 25, 26, 27, 50, 51, 52, 75, 76, 77));
  EXPECT_THAT(values(first.field("targets")),
              ElementsAre(1, 2, 3, 26, 27, 28, 51, 52, 53, 76, 77, 78));
  EXPECT_EQ(first.field("tokens").shape(), (Shape{4, 3}));
  EXPECT_TRUE(first.resets_state);
  EXPECT_EQ(first.count("tokens"), 12);
  EXPECT_EQ(first.count("bytes"), 12);
  Batch second = streams.next();
  EXPECT_THAT(values(second.field("tokens")),
              ElementsAre(3, 4, 5, 28, 29, 30, 53, 54, 55, 78, 79, 80));
  EXPECT_FALSE(second.resets_state);
}

TEST_F(StreamSourceTest, RestartsStreamsAtEachEpoch) {
  StreamSource streams = reader({.streams = 4, .segment = 3});
  EXPECT_EQ(streams.batches_per_epoch(), 8);  // 24 pairs a stream; the last one has 26
  int epoch = 0;
  for (const int offset : {0, 2, 1, 0, 2}) {
    for (int i = 0; i < 8; ++i) {
      const Batch batch = streams.next();
      EXPECT_EQ(batch.resets_state, i == 0);
      EXPECT_EQ(batch.place,
                fmt::format("at token {} of each stream in epoch {}", offset + 3 * i, epoch));
      EXPECT_EQ(values(batch.field("tokens"))[0], offset + 3 * i);
      EXPECT_EQ(values(batch.field("targets"))[11], 75 + offset + 3 * i + 3);
    }
    ++epoch;
  }
}

TEST(StreamSource, TwoEpochsReadEveryToken) {
  // 2,041 tokens in 8 streams of 128: an epoch has one batch, of 1,024 targets.
  std::vector<std::uint16_t> ids(2041);
  std::iota(ids.begin(), ids.end(), std::uint16_t{0});
  const TemporaryFile file({reinterpret_cast<const char*>(ids.data()), 2 * ids.size()});
  const Tokenizer tokenizer = Tokenizer::ids(2041);
  const TokenIdFile opened(
      std::make_shared<const InputFile>(file.path()), 2041, TokenDType::fitting);
  StreamSource streams(
      Corpus(CorpusFile(opened, tokenizer)), {.streams = 8, .segment = 128}, 0, 1, Device::cpu());
  ASSERT_EQ(streams.batches_per_epoch(), 1);
  std::vector<int> read(2041);
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const std::int64_t target : values(streams.next().field("targets")))
      ++read[static_cast<std::size_t>(target)];
  EXPECT_EQ(read[0], 0);  // has no predecessor
  EXPECT_EQ(std::count(read.begin() + 1, read.end(), 0), 0);
}

TEST_F(StreamSourceTest, GlobalBatchesAreEqualOnAnyRankCount) {
  const StreamLayout layout{.streams = 4, .segment = 5};
  for (const int ranks : {1, 2, 4}) {
    StreamSource whole = reader(layout);
    std::vector<StreamSource> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back(reader(layout, rank, ranks));
    for (int step = 0; step < 11; ++step) {
      const Batch expected = whole.next();
      std::vector<std::int64_t> tokens;
      std::vector<std::int64_t> targets;
      for (StreamSource& part : parts) {
        const Batch batch = part.next();
        EXPECT_EQ(batch.first_row * 5, static_cast<std::int64_t>(tokens.size()));
        EXPECT_EQ(batch.resets_state, expected.resets_state);
        for (const auto token : values(batch.field("tokens"))) tokens.push_back(token);
        for (const auto target : values(batch.field("targets"))) targets.push_back(target);
      }
      EXPECT_EQ(tokens, values(expected.field("tokens")));
      EXPECT_EQ(targets, values(expected.field("targets")));
    }
  }
}

TEST_F(StreamSourceTest, ResumesExactlyOnAnyRankCount) {
  const StreamLayout layout{.streams = 4, .segment = 5};
  for (int steps = 0; steps < 11; ++steps) {  // an epoch has 4
    StreamSource whole = reader(layout);
    for (int i = 0; i < steps; ++i) whole.next();
    const Tensor state = whole.cursors();
    const Batch expected = whole.next();
    for (const int ranks : {1, 2, 4}) {
      for (int rank = 0; rank < ranks; ++rank) {
        StreamSource part = reader(layout, rank, ranks);
        const StreamRange range = part.range();
        part.restore(state.slice(range.begin, range.end));
        EXPECT_EQ(values(part.cursors()), values(state.slice(range.begin, range.end)));
        const Batch batch = part.next();
        EXPECT_EQ(values(batch.field("tokens")),
                  values(expected.field("tokens").slice(range.begin, range.end)));
        EXPECT_EQ(batch.resets_state, expected.resets_state);
        EXPECT_EQ(batch.place, expected.place);
      }
    }
  }
}

TEST_F(StreamSourceTest, ResumesAtSameTokenWithOtherSegmentLength) {
  StreamSource before = reader({.streams = 2, .segment = 7});
  before.next();
  before.next();
  StreamSource after = reader({.streams = 2, .segment = 3});
  after.restore(before.cursors());
  EXPECT_THAT(values(after.next().field("tokens")), ElementsAre(14, 15, 16, 65, 66, 67));
}

TEST_F(StreamSourceTest, RejectsInvalidCursors) {
  StreamSource streams = reader({.streams = 2, .segment = 5});
  const auto state = [](std::vector<std::int64_t> rows, const Shape& shape) {
    return Tensor::from<std::int64_t>(rows, shape, Device::cpu());
  };
  const auto error_of = [&](const Tensor& cursors) {
    return message_of<DataError>([&] { streams.restore(cursors); });
  };
  EXPECT_THAT(error_of(state({0, 0}, {1, 2})),
              HasSubstr("expected data positions of shape [2, 2]"));
  EXPECT_THAT(error_of(state({51, 0, 51, 0}, {2, 2})),
              HasSubstr("stream 0 resumes at token 51 of epoch 0, but has 51 tokens"));
  EXPECT_THAT(error_of(state({-1, 0, -1, 0}, {2, 2})), HasSubstr("token -1"));
  EXPECT_THAT(error_of(state({5, 0, 10, 0}, {2, 2})), HasSubstr("expected equal positions"));
  EXPECT_TRUE(streams.next().resets_state);  // unchanged
}

TEST_F(StreamSourceTest, RejectsTooShortText) {
  EXPECT_THAT(
      message_of<DataError>([&] { reader({.streams = 4, .segment = 25}); }),
      HasSubstr(
          "expected at least 104 tokens (data.global_batch_size = 4 streams of data.seq_length + 1 "
          "= 26), found 102"));
  EXPECT_EQ(reader({.streams = 4, .segment = 24}).batches_per_epoch(), 1);
  EXPECT_EQ(reader({.streams = 51, .segment = 1}).batches_per_epoch(), 1);
  EXPECT_THROW(reader({.streams = 103, .segment = 1}), DataError);
}

TEST_F(StreamSourceTest, RequiresStreamsDivisibleByDataRanks) {
  EXPECT_EQ(message_of<ConfigurationError>([&] { reader({.streams = 4, .segment = 3}, 0, 3); }),
            "data.global_batch_size: expected a multiple of the 3 data ranks, found 4");
}

TEST(StreamSource, ReadsStreamsFromCharacterTokens) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 2 == 0 ? "\xC3\xA9" : "x";
  const TemporaryFile file(text);
  const Tokenizer tokenizer = Tokenizer::characters_of(InputFile(file.path()), false);
  StreamSource streams(
      Corpus(file.path(), tokenizer), {.streams = 2, .segment = 4}, 0, 1, Device::cpu());
  for (int i = 0; i < 6; ++i) {  // an epoch has 4, and the second begins at token 3
    const Batch batch = streams.next();
    EXPECT_THAT(values(batch.field("tokens")),
                i < 4 ? ElementsAre(1, 0, 1, 0, 1, 0, 1, 0) : ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
    EXPECT_EQ(batch.count("bytes"), 2 * (2 * 1 + 2 * 2));
  }
}

TEST(StreamSource, Reads30GigabytesInBoundedMemory) {
  const TemporaryFile file("begin");
  const std::int64_t size = 30'000'000'000;
  file.resize(static_cast<std::uintmax_t>(size));
  const Corpus corpus(file.path(), Tokenizer());
  EXPECT_EQ(corpus.tokens(), size);
  StreamSource reader(corpus, {.streams = 4, .segment = 1 << 20}, 0, 1, Device::cpu());
  EXPECT_EQ(reader.next().field("tokens").span<std::int64_t>()[0], 'b');
  reader.next();  // the memory of batches is allocated now
  const std::int64_t before = process_bytes("VmRSS");
  std::int64_t most = 0;
  for (int i = 0; i < 12; ++i) {
    reader.next();
    most = std::max(most, process_bytes("VmRSS"));
  }
  // The address sanitizer retains freed memory.
  if (!testing::sanitized) {
    EXPECT_LT(most - before, 16 << 20);
  }
}

}  // namespace
}  // namespace longspan::stream_reader_test
