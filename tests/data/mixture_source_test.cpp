#include "framework/data/corpus/mixture_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/core/error.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/corpus/text_files.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::mixture_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns lines of these lengths, each with its own letter: "aaa\nbb\n".
std::string documents(char first, const std::vector<int>& lengths) {
  std::string text;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    text += std::string(static_cast<std::size_t>(lengths[i]), static_cast<char>(first + i)) + "\n";
  return text;
}

class MixtureSourceTest : public ::testing::Test {
 protected:
  // Returns a document for each line.
  DocumentList lines(const TemporaryFile& file) {
    DataOptions options;
    options.documents.boundary = DocumentBoundary::line;
    options.token_cache = folder_.path().string();
    return {open_corpus(PathList(file.path()), options, Tokenizer(), "", {}), 4};
  }
  static WeightedMixtureSource reader(const std::vector<MixtureComponent>& texts,
                                      const MixtureOptions& reading,
                                      int rank = 0,
                                      int ranks = 1) {
    return {texts, reading, rank, ranks, Device::cpu()};
  }
  static std::string row(const Batch& batch, std::int64_t row, const char* field = "tokens") {
    std::string text;
    for (const std::int64_t id : batch.field(field).slice(row, row + 1).span<std::int64_t>())
      text.push_back(id == ignored_target ? '.' : static_cast<char>(id));
    return text;
  }
  static std::vector<std::int64_t> places(const Batch& batch, std::int64_t row) {
    const auto span = batch.field("document_position").slice(row, row + 1).span<std::int64_t>();
    return {span.begin(), span.end()};
  }

  testing::TemporaryDirectory folder_;
  TemporaryFile small_{documents('a', {3, 1, 2, 4})};
  TemporaryFile large_{documents('A', {5, 2, 7, 3, 6, 1, 4})};
};

TEST_F(MixtureSourceTest, StreamsConcatenateEveryNthDocument) {
  WeightedMixtureSource all = reader({{lines(small_)}}, {.layout = {.streams = 2, .segment = 5}});
  const Batch first = all.next();
  EXPECT_EQ(row(first, 0), "aaacc");
  EXPECT_EQ(row(first, 0, "targets"), "aacca");
  EXPECT_EQ(row(first, 1), "bdddd");
  EXPECT_EQ(row(first, 1, "targets"), "ddddb");
  EXPECT_TRUE(first.resets_state);
  EXPECT_EQ(first.count("tokens"), 10);
  EXPECT_EQ(first.count("bytes"), 10);
  EXPECT_FALSE(all.next().resets_state);
}

TEST_F(MixtureSourceTest, DoesNotPredictAcrossResetDocuments) {
  WeightedMixtureSource all = reader(
      {{lines(small_)}}, {.layout = {.streams = 1, .segment = 6}, .reset_attention_mask = true});
  const Batch first = all.next();
  EXPECT_EQ(row(first, 0), "aaabcc");
  EXPECT_EQ(row(first, 0, "targets"), "aa..c.");
  EXPECT_THAT(places(first, 0), ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_EQ(first.count("tokens"), 3);
  EXPECT_EQ(first.count("bytes"), 3);
  const Batch second = all.next();
  EXPECT_EQ(row(second, 0), "ddddaa");
  EXPECT_THAT(places(second, 0), ElementsAre(0, 1, 2, 3, 0, 1));
}

TEST_F(MixtureSourceTest, ShufflesEachDocumentOncePerEpoch) {
  const DocumentList list = lines(large_);
  WeightedMixtureSource all = reader({{list}},
                                     {.layout = {.streams = 1, .segment = 28},
                                      .seed = 3,
                                      .shuffle = true,
                                      .reset_attention_mask = true});
  std::set<std::string> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::string text = row(all.next(), 0);
    orders.insert(text);
    std::ranges::sort(text);
    std::string expected = documents('A', {5, 2, 7, 3, 6, 1, 4});
    std::erase(expected, '\n');
    EXPECT_EQ(text, expected);
  }
  EXPECT_EQ(orders.size(), 3);
}

TEST_F(MixtureSourceTest, ReadsTokensInProportionToWeights) {
  WeightedMixtureSource all = reader({{lines(small_), 1}, {lines(large_), 3}},
                                     {.layout = {.streams = 2, .segment = 50}, .shuffle = true});
  std::map<bool, double> read;
  for (int i = 0; i < 40; ++i) {
    const Batch batch = all.next();
    for (const std::int64_t id : batch.field("tokens").span<std::int64_t>()) read[id >= 'a'] += 1;
  }
  // Tolerance: one document per stream.
  EXPECT_NEAR(read[true], 1000, 16);
  EXPECT_NEAR(read[false], 3000, 16);
}

TEST_F(MixtureSourceTest, ResumesExactlyOnDifferentRankCount) {
  const std::vector<MixtureComponent> texts = {{lines(small_), 2}, {lines(large_), 1}};
  const MixtureOptions reading = {.layout = {.streams = 4, .segment = 7},
                                  .seed = 5,
                                  .shuffle = true,
                                  .reset_attention_mask = true};
  WeightedMixtureSource one = reader(texts, reading);
  std::vector<Batch> expected;
  for (int i = 0; i < 9; ++i) expected.push_back(one.next());
  WeightedMixtureSource before = reader(texts, reading);
  for (int i = 0; i < 4; ++i) before.next();
  const Tensor cursors = before.cursors();
  for (int rank = 0; rank < 2; ++rank) {
    WeightedMixtureSource part = reader(texts, reading, rank, 2);
    part.restore(cursors.slice(rank * 2, rank * 2 + 2));
    for (std::size_t i = 4; i < expected.size(); ++i) {
      const Batch batch = part.next();
      for (std::int64_t at = 0; at < 2; ++at) {
        for (const char* field : {"tokens", "targets"})
          EXPECT_EQ(row(batch, at, field), row(expected[i], rank * 2 + at, field));
        EXPECT_EQ(places(batch, at), places(expected[i], rank * 2 + at));
      }
    }
  }
}

TEST_F(MixtureSourceTest, RejectsCursorsFromOtherData) {
  const std::vector<MixtureComponent> texts = {{lines(small_)}};
  const MixtureOptions reading = {.layout = {.streams = 2, .segment = 3}};
  WeightedMixtureSource all = reader(texts, reading);
  all.next();
  const Tensor good = all.cursors();
  const auto refusal = [&](std::size_t at, std::int64_t value) {
    const Tensor bad = good.clone(MemoryTag::workspace);
    bad.span<std::int64_t>()[at] = value;
    WeightedMixtureSource other = reader(texts, reading);
    return message_of<DataError>([&] { other.restore(bad); });
  };
  EXPECT_EQ(refusal(2, good.span<std::int64_t>()[2]), "");
  EXPECT_THAT(refusal(0, 1), HasSubstr("stream 0 resumes at token 3 of document 0 of file 1"));
  // A position beyond a shortened document is its end.
  EXPECT_EQ(refusal(1, 100), "");
  EXPECT_THAT(refusal(1, -1), HasSubstr("which does not exist"));
  EXPECT_THAT(refusal(2, 0), HasSubstr("which does not exist"));
  WeightedMixtureSource two = reader({{lines(small_)}, {lines(large_)}}, reading);
  EXPECT_THAT(message_of<DataError>([&] { two.restore(good); }),
              HasSubstr("restore data.train, data.shuffle"));
}

TEST_F(MixtureSourceTest, DocumentListSplitsTextWithoutDocuments) {
  const TemporaryFile text("abcdefghij");
  const DocumentList pieces(Corpus(text.path(), Tokenizer()), 4);
  EXPECT_EQ(pieces.count(), 3);
  EXPECT_EQ(pieces.at(2), (Range{8, 10}));
  EXPECT_EQ(pieces.document_of(7), 1);
  EXPECT_EQ(pieces.document_of(8), 2);
  const Corpus twice("both",
                     {CorpusFile(text.path(), Tokenizer()), CorpusFile(text.path(), Tokenizer())});
  const DocumentList both(twice, 4);
  EXPECT_EQ(both.count(), 6);
  EXPECT_EQ(both.at(3), (Range{10, 14}));
  EXPECT_EQ(both.document_of(19), 5);
}

TEST_F(MixtureSourceTest, EvaluationReaderResetsDocuments) {
  const Corpus corpus = lines(small_).corpus();
  EvaluationReader measured(corpus, {1, 6}, 0, 1, Device::cpu(), 0, 4);
  const Batch first = measured.next();
  EXPECT_EQ(row(first, 0), "aaabcc");
  EXPECT_EQ(row(first, 0, "targets"), "aa..c.");
  EXPECT_THAT(places(first, 0), ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_EQ(first.count("tokens"), 3);
  EXPECT_EQ(first.count("bytes"), 3);
}

TEST(ShuffledIndex, PermutesAllIndices) {
  for (const std::int64_t count : {1, 2, 3, 7, 64, 1000}) {
    const Random random(static_cast<std::uint64_t>(count));
    std::set<std::int64_t> found;
    std::int64_t fixed = 0;
    for (std::int64_t at = 0; at < count; ++at) {
      const std::int64_t value = shuffled_index(random, count, at);
      EXPECT_GE(value, 0);
      EXPECT_LT(value, count);
      found.insert(value);
      fixed += value == at ? 1 : 0;
    }
    EXPECT_EQ(std::ssize(found), count);
    if (count == 1000) {
      EXPECT_LT(fixed, 10);
    }
  }
}

TEST(Corpus, ConcatenatesSeveralFiles) {
  const TemporaryFile a("abc"), b("defgh"), c("i");
  const Corpus all("all",
                   {CorpusFile(a.path(), Tokenizer()),
                    CorpusFile(b.path(), Tokenizer()),
                    CorpusFile(c.path(), Tokenizer())});
  EXPECT_EQ(all.tokens(), 9);
  EXPECT_EQ(all.bytes(), 9);
  for (std::int64_t begin = 0; begin <= 9; ++begin) {
    EXPECT_EQ(all.seek(begin), (CorpusPosition{begin, begin}));
    for (std::int64_t end = begin; end <= 9; ++end) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
      EXPECT_EQ(all.read(all.seek(begin), ids), (CorpusPosition{end, end}));
      EXPECT_EQ(std::string(ids.begin(), ids.end()),
                std::string("abcdefghi").substr(static_cast<std::size_t>(begin), ids.size()));
    }
  }
  const Corpus one("one", {CorpusFile(a.path(), Tokenizer())});
  EXPECT_EQ(one.fingerprint(), Corpus(a.path(), Tokenizer()).fingerprint());
  EXPECT_NE(all.fingerprint(), one.fingerprint());
}

}  // namespace
}  // namespace longspan::mixture_source_test
