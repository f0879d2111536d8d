#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"
#include "framework/data/corpus/stream_reader.h"
#include "tests/data/temporary_file.h"

namespace longspan::evaluation_reader_test {
namespace {

std::string random_bytes(std::size_t size) {
  std::string text;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    text.push_back(static_cast<char>(state >> 24));
  }
  return text;
}

TEST(EvaluationReader, PredictsEachTokenOnceForAnyLayout) {
  for (const std::size_t size : {2u, 3u, 5u, 64u, 201u}) {
    const std::string text = random_bytes(size);
    const TemporaryFile file(text);
    const Corpus corpus(file.path(), Tokenizer());
    for (const std::int64_t streams : {1, 2, 4, 8}) {
      for (const std::int64_t segment : {1, 3, 16, 400}) {
        for (const int ranks : {1, 2}) {
          if (streams % ranks != 0) continue;
          // Targets of each stream, in batch order.
          std::vector<std::string> found(static_cast<std::size_t>(streams));
          std::int64_t counted = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            EvaluationReader reader(corpus, {streams, segment}, rank, ranks, Device::cpu());
            for (std::int64_t i = 0; i < reader.batches(); ++i) {
              ASSERT_FALSE(reader.done());
              const Batch batch = reader.next();
              EXPECT_EQ(batch.resets_state, i == 0);
              counted += batch.count("tokens");
              EXPECT_EQ(batch.count("bytes"), batch.count("tokens"));
              const auto tokens = batch.field("tokens").span<std::int64_t>();
              const auto targets = batch.field("targets").span<std::int64_t>();
              const auto width = static_cast<std::size_t>(batch.field("targets").shape()[1]);
              for (std::size_t k = 0; k < targets.size(); ++k) {
                auto& run = found[static_cast<std::size_t>(batch.first_row) + k / width];
                if (targets[k] == ignored_target) {
                  EXPECT_EQ(tokens[k], 0);
                  continue;
                }
                if (run.empty()) run.push_back(static_cast<char>(tokens[k]));
                // Each token equals the previous target: a stream has no gaps.
                EXPECT_EQ(run.back(), static_cast<char>(tokens[k]));
                run.push_back(static_cast<char>(targets[k]));
              }
            }
            EXPECT_TRUE(reader.done());
            EXPECT_THROW(reader.next(), Failure);
          }
          std::string joined = text.substr(0, 1);
          for (const std::string& run : found) {
            if (run.empty()) continue;
            EXPECT_EQ(run[0], joined.back());
            joined += run.substr(1);
          }
          EXPECT_EQ(joined, text);
          EXPECT_EQ(counted, static_cast<std::int64_t>(size) - 1);
        }
      }
    }
  }
}

TEST(EvaluationReader, RewindRestartsPass) {
  const TemporaryFile file(random_bytes(50));
  EvaluationReader reader(Corpus(file.path(), Tokenizer()), {2, 7}, 0, 1, Device::cpu());
  const Batch first = reader.next();
  while (!reader.done()) reader.next();
  reader.rewind();
  const Batch again = reader.next();
  EXPECT_TRUE(again.resets_state);
  EXPECT_TRUE(std::ranges::equal(first.field("tokens").span<std::int64_t>(),
                                 again.field("tokens").span<std::int64_t>()));
}

TEST(EvaluationReader, CountsBytesOfMultibyteCharacters) {
  const TemporaryFile file("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  const Tokenizer tokenizer = Tokenizer::characters_of(InputFile(file.path()), false);
  EvaluationReader reader(Corpus(file.path(), tokenizer), {2, 8}, 0, 1, Device::cpu());
  const Batch batch = reader.next();
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(batch.count("tokens"), 3);
  EXPECT_EQ(batch.count("bytes"), 9);  // all but the first character
}

TEST(EvaluationReader, CountsTextBytesOfLimitedStreams) {
  const TemporaryFile known("ab");
  const Tokenizer tokenizer = Tokenizer::characters_of(InputFile(known.path()), true);
  const TemporaryFile file("aé漢aé漢aé漢a");
  const Corpus corpus(file.path(), tokenizer);
  // Streams have 5 and 4 pairs; `most` limits each of them.
  for (const auto& [most, bytes] : {std::pair(1, 5), {2, 9}, {3, 12}}) {
    std::int64_t found = 0;
    EvaluationReader reader(corpus, {2, 2}, 0, 1, Device::cpu(), most);
    while (!reader.done()) found += reader.next().count("bytes");
    EXPECT_EQ(found, bytes) << most;
  }
}

TEST(EvaluationReader, LimitsBatchWidthToStreamLength) {
  const TemporaryFile file(random_bytes(12));
  const std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  EvaluationReader reader(Corpus(file.path(), Tokenizer()), {2, longest}, 0, 1, Device::cpu());
  EXPECT_EQ(reader.batches(), 1);
  const Batch batch = reader.next();
  EXPECT_EQ(batch.field("tokens").shape(), (Shape{2, 6}));
  EXPECT_EQ(batch.count("tokens"), 11);
}

TEST(EvaluationReader, RejectsSingleToken) {
  const TemporaryFile file("a");
  EXPECT_THAT(message_of<DataError>([&] {
                EvaluationReader(Corpus(file.path(), Tokenizer()), {1, 1}, 0, 1, Device::cpu());
              }),
              ::testing::HasSubstr("expected at least 2 tokens, found 1"));
}

}  // namespace
}  // namespace longspan::evaluation_reader_test
