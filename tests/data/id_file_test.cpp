#include "framework/data/id_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>

#include "framework/core/error.h"
#include "framework/data/corpus.h"
#include "framework/data/evaluation_reader.h"
#include "framework/data/stream_reader.h"
#include "framework/data/text_files.h"
#include "tests/data/temporary_file.h"
#include "tests/support/process_bytes.h"
#include "tests/support/sanitizers.h"

namespace longspan::id_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As numpy's tofile writes them.
template <typename T>
std::string bytes_of(const std::vector<T>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T)};
}

template <typename T>
std::vector<T> counted(std::size_t count, T first = 0) {
  std::vector<T> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

IdFile open(const TemporaryFile& file, std::int64_t vocabulary, IdBits bits = IdBits::fitting) {
  return {std::make_shared<const InputFile>(file.path()), vocabulary, bits};
}

std::string refusal(const TemporaryFile& file,
                    std::int64_t vocabulary,
                    IdBits bits = IdBits::fitting) {
  return sentence_of<DataError>([&] { open(file, vocabulary, bits); });
}

std::vector<std::int64_t> read(const IdFile& ids, std::int64_t token, std::size_t count) {
  std::vector<std::int64_t> out(count);
  ids.read(token, out);
  return out;
}

TEST(IdFile, ReadsIdsOfTheBitsThatTheVocabularyNeedsOrThatAreAskedFor) {
  const TemporaryFile narrow(bytes_of<std::uint16_t>({5, 50256, 7, 65535}));
  EXPECT_EQ(open(narrow, 65536).tokens(), 4);
  EXPECT_THAT(read(open(narrow, 65536), 1, 3), ElementsAre(50256, 7, 65535));
  const TemporaryFile wide(bytes_of<std::uint32_t>({5, 128255, 7}));
  EXPECT_EQ(open(wide, 128256).tokens(), 3);
  EXPECT_THAT(read(open(wide, 128256), 0, 3), ElementsAre(5, 128255, 7));
  const TemporaryFile wider(bytes_of<std::uint32_t>({5, 6, 7}));
  EXPECT_THAT(read(open(wider, 10, IdBits::thirty_two), 1, 2), ElementsAre(6, 7));
}

TEST(IdFile, ReadsAnyPartOfMoreIdsThanItCopiesAtATime) {
  const auto ids = counted<std::uint16_t>(60000);
  const TemporaryFile file(bytes_of(ids));
  const IdFile opened = open(file, 60000);
  for (const std::int64_t begin : {0, 1, 4095, 4097, 40000}) {
    const auto found = read(opened, begin, static_cast<std::size_t>(60000 - begin));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], begin + static_cast<std::int64_t>(i));
  }
}

TEST(IdFile, AnIdBeyondTheVocabularyIsToldWithItsPlace) {
  const TemporaryFile file(bytes_of<std::uint16_t>({5, 9, 300}));
  EXPECT_EQ(refusal(file, 300),
            file.path() +
                ": byte 4: token 2 is 300, read as an id of 16 bits (data.token_bits); the "
                "vocabulary has 300 ids, 0 to 299");
  EXPECT_EQ(refusal(file, 301), "");
}

TEST(IdFile, AnIdBetweenThePlacesThatAreLookedAtIsRefusedWhenItIsRead) {
  std::vector<std::uint16_t> ids(2'000'000, 1);
  ids[5000] = 400;
  const TemporaryFile file(bytes_of(ids));
  const IdFile opened = open(file, 300);
  EXPECT_THAT(read(opened, 4998, 2), ElementsAre(1, 1));
  EXPECT_THAT(sentence_of<DataError>([&] { read(opened, 4998, 4); }),
              HasSubstr("byte 10000: token 5000 is 400"));
}

TEST(IdFile, IdsOfOtherBitsAreNotTakenForTheseIds) {
  const TemporaryFile wide(bytes_of<std::uint32_t>({5, 6, 7, 8, 9}));
  EXPECT_EQ(refusal(wide, 300),
            wide.path() +
                ": every second id of 16 bits is 0, as in a file of 32 bits; set data.token_bits "
                "to 32, or to 16 where the ids are so");
  EXPECT_EQ(refusal(wide, 300, IdBits::sixteen), "");
  EXPECT_EQ(refusal(wide, 300, IdBits::thirty_two), "");
  const TemporaryFile narrow(bytes_of<std::uint16_t>({5, 6, 7, 8}));
  EXPECT_THAT(refusal(narrow, 300, IdBits::thirty_two),
              HasSubstr("byte 0: token 0 is 393221, read as an id of 32 bits"));
}

TEST(IdFile, BytesThatAreNoWholeIdsAreRefused) {
  const TemporaryFile file("abc");
  EXPECT_THAT(refusal(file, 40000),
              HasSubstr("has 3 bytes, which are no whole number of ids of 16 bits"));
  EXPECT_THAT(refusal(file, 100000), HasSubstr("whole number of ids of 32 bits"));
}

TEST(IdFile, AFileThatBecomesShorterIsAnErrorAndNotASignal) {
  const TemporaryFile file(bytes_of(counted<std::uint16_t>(10000)));
  const IdFile opened = open(file, 10000);
  file.resize(100);
  EXPECT_THAT(sentence_of<DataError>([&] { read(opened, 9000, 10); }),
              HasSubstr("has become shorter"));
}

TEST(IdFile, IsReadAsStreamsWhoseCursorsGoOnExactlyOnAnyNumberOfRanks) {
  const TemporaryFile file(bytes_of(counted<std::uint32_t>(102, 70000)));
  const Corpus corpus(CorpusFile(open(file, 80000), Tokenizer::ids(80000)));
  EXPECT_EQ(corpus.tokens(), 102);
  EXPECT_FALSE(corpus.is_text());
  const StreamLayout layout{.streams = 4, .segment = 5};
  StreamReader whole(corpus, layout, 0, 1, Device::cpu());
  whole.next();
  const Tensor cursors = whole.cursors();
  const Batch expected = whole.next();
  EXPECT_EQ(expected.count("bytes"), 0);
  const auto all = expected.field("tokens").span<std::int64_t>();
  EXPECT_EQ(all[0], 70005);
  EXPECT_EQ(all[5], 70030);
  for (int rank = 0; rank < 2; ++rank) {
    StreamReader part(corpus, layout, rank, 2, Device::cpu());
    part.restore(cursors.slice(part.range().begin, part.range().end));
    const Batch batch = part.next();
    const auto found = batch.field("tokens").span<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], all[static_cast<std::size_t>(rank) * 10 + i]);
  }
  EvaluationReader once(corpus, {2, 101}, 0, 1, Device::cpu());
  EXPECT_EQ(once.next().count("tokens"), 101);
}

TEST(IdFile, FingerprintsTellIdsBitsAndVocabulariesApart) {
  const TemporaryFile file(bytes_of<std::uint32_t>({5, 6, 7, 8}));
  const auto print = [&](std::int64_t vocabulary, IdBits bits) {
    return CorpusFile(open(file, vocabulary, bits), Tokenizer::ids(vocabulary)).fingerprint();
  };
  EXPECT_EQ(print(300, IdBits::thirty_two), print(300, IdBits::thirty_two));
  EXPECT_NE(print(300, IdBits::thirty_two), print(300, IdBits::sixteen));
  EXPECT_NE(print(300, IdBits::thirty_two), print(301, IdBits::thirty_two));
}

TEST(IdFile, AHundredGigabytesAreOpenedAtOnceAndReadWithoutHoldingThem) {
  const TemporaryFile file(bytes_of<std::uint16_t>({9, 8}));
  constexpr std::int64_t size = 100'000'000'000;
  file.resize(static_cast<std::uintmax_t>(size));
  DataOptions options;
  options.format = DataFormat::tokens;
  const std::clock_t begin = std::clock();  // of this process: others do not count
  const Corpus corpus = open_corpus(file.path(), options, Tokenizer::ids(50257), "", {});
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);  // not minutes
  EXPECT_EQ(corpus.tokens(), size / 2);
  StreamReader reader(corpus, {.streams = 4, .segment = 1 << 20}, 0, 1, Device::cpu());
  EXPECT_EQ(reader.next().field("tokens").span<std::int64_t>()[1], 8);
  reader.next();  // by now the memory of batches has its size
  const std::int64_t before = process_bytes("VmRSS");
  std::int64_t most = 0;
  for (int i = 0; i < 12; ++i) {
    reader.next();
    most = std::max(most, process_bytes("VmRSS"));
  }
  // Of what was read; the address sanitizer holds what is given back.
  if (!testing::sanitized) {
    EXPECT_LT(most - before, 16 << 20);
  }
}

TEST(Tokenizer, IdsAreNumbersWithBlanksBetweenThem) {
  const Tokenizer tokenizer = Tokenizer::ids(300);
  EXPECT_EQ(tokenizer.vocabulary(), 300);
  EXPECT_THAT(tokenizer.encode(" 15\t0 299\n", "the prompt"), ElementsAre(15, 0, 299));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{15, 0, 299}), " 15 0 299");
  EXPECT_EQ(sentence_of<DataError>([&] { tokenizer.encode("15 In", "the prompt"); }),
            "the prompt: byte 3: found \"In\"; wanted the number of a token, 0 to 299: "
            "data.tokenizer is ids, so a text is such numbers with blanks between them");
  for (const char* text : {"300", "-1", "1.5", "99999999999999999999"})
    EXPECT_THAT(sentence_of<DataError>([&] { tokenizer.encode(text, "the prompt"); }),
                HasSubstr(text));
  EXPECT_THROW(tokenizer.decode(std::vector<std::int64_t>{300}), DataError);
}

TEST(Tokenizer, OfIdsIsMadeAgainFromItsJson) {
  const Tokenizer tokenizer = Tokenizer::ids(300);
  EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json(), "here"), tokenizer);
  EXPECT_NE(Tokenizer::ids(301), tokenizer);
  EXPECT_NE(Tokenizer::ids(256), Tokenizer());
  EXPECT_NE(Tokenizer::ids(301).fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(sentence_of<DataError>([] {
              Tokenizer::from_json(
                  R"({"format":"longspan-tokenizer","version":1,"kind":"ids","vocabulary":0})",
                  "here");
            }),
            "here: has a vocabulary of 0; wanted at least 1 id");
}

}  // namespace
}  // namespace longspan::id_file_test
