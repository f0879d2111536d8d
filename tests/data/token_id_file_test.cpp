#include "framework/data/token_id_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <numeric>

#include "framework/core/error.h"
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/corpus/text_files.h"
#include "tests/data/temporary_file.h"
#include "tests/support/process_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_directory.h"

namespace longspan::token_id_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the bytes that numpy.ndarray.tofile writes.
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

TokenIdFile open(const TemporaryFile& file,
                 std::int64_t vocabulary,
                 TokenDType bits = TokenDType::fitting) {
  return {std::make_shared<const InputFile>(file.path()), vocabulary, bits};
}

std::string refusal(const TemporaryFile& file,
                    std::int64_t vocabulary,
                    TokenDType bits = TokenDType::fitting) {
  return message_of<DataError>([&] { open(file, vocabulary, bits); });
}

std::vector<std::int64_t> read(const TokenIdFile& ids, std::int64_t token, std::size_t count) {
  std::vector<std::int64_t> out(count);
  ids.read(token, out);
  return out;
}

TEST(TokenIdFile, ReadsFittingOrRequestedDtype) {
  const TemporaryFile narrow(bytes_of<std::uint16_t>({5, 50256, 7, 65535}));
  EXPECT_EQ(open(narrow, 65536).tokens(), 4);
  EXPECT_THAT(read(open(narrow, 65536), 1, 3), ElementsAre(50256, 7, 65535));
  const TemporaryFile wide(bytes_of<std::uint32_t>({5, 128255, 7}));
  EXPECT_EQ(open(wide, 128256).tokens(), 3);
  EXPECT_THAT(read(open(wide, 128256), 0, 3), ElementsAre(5, 128255, 7));
  const TemporaryFile wider(bytes_of<std::uint32_t>({5, 6, 7}));
  EXPECT_THAT(read(open(wider, 10, TokenDType::thirty_two), 1, 2), ElementsAre(6, 7));
}

TEST(TokenIdFile, ReadsRangesLongerThanItsBuffer) {
  const auto ids = counted<std::uint16_t>(60000);
  const TemporaryFile file(bytes_of(ids));
  const TokenIdFile opened = open(file, 60000);
  for (const std::int64_t begin : {0, 1, 4095, 4097, 40000}) {
    const auto found = read(opened, begin, static_cast<std::size_t>(60000 - begin));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], begin + static_cast<std::int64_t>(i));
  }
}

TEST(TokenIdFile, RejectsIdOutsideVocabularyWithByte) {
  const TemporaryFile file(bytes_of<std::uint16_t>({5, 9, 300}));
  EXPECT_EQ(refusal(file, 300),
            file.path() +
                ": byte 4: token 2 is 300, read as an id of 16 bits (data.token_dtype), but the "
                "vocabulary has 300 ids, 0 to 299");
  EXPECT_EQ(refusal(file, 301), "");
}

TEST(TokenIdFile, RejectsUncheckedIdOutsideVocabularyWhenRead) {
  std::vector<std::uint16_t> ids(2'000'000, 1);
  ids[5000] = 400;
  const TemporaryFile file(bytes_of(ids));
  const TokenIdFile opened = open(file, 300);
  EXPECT_THAT(read(opened, 4998, 2), ElementsAre(1, 1));
  EXPECT_THAT(message_of<DataError>([&] { read(opened, 4998, 4); }),
              HasSubstr("byte 10000: token 5000 is 400"));
}

TEST(TokenIdFile, RejectsIdsThatResembleAnotherDtype) {
  const TemporaryFile wide(bytes_of<std::uint32_t>({5, 6, 7, 8, 9}));
  EXPECT_EQ(refusal(wide, 300),
            wide.path() +
                ": every second 16-bit id is 0, as in a file of 32-bit ids; set data.token_dtype "
                "to uint32, or to uint16 if the ids are correct");
  EXPECT_EQ(refusal(wide, 300, TokenDType::sixteen), "");
  EXPECT_EQ(refusal(wide, 300, TokenDType::thirty_two), "");
  const TemporaryFile narrow(bytes_of<std::uint16_t>({5, 6, 7, 8}));
  EXPECT_THAT(refusal(narrow, 300, TokenDType::thirty_two),
              HasSubstr("byte 0: token 0 is 393221, read as an id of 32 bits"));
}

TEST(TokenIdFile, Reads64BitIdsAndRejectsThemAsNarrowerIds) {
  const TemporaryFile wide(bytes_of<std::int64_t>({5, 6, 7, 8, 9}));
  EXPECT_THAT(read(open(wide, 300, TokenDType::sixty_four), 0, 5), ElementsAre(5, 6, 7, 8, 9));
  // auto is 32 bits for 128,256 ids.
  for (const auto& [vocabulary, bits] :
       {std::pair<std::int64_t, TokenDType>(300, TokenDType::fitting),
        {300, TokenDType::sixteen},
        {300, TokenDType::thirty_two},
        {128256, TokenDType::fitting}})
    EXPECT_THAT(refusal(wide, vocabulary, bits), HasSubstr("set data.token_dtype to uint64"));
  const TemporaryFile negative(bytes_of<std::int64_t>({5, -1}));
  EXPECT_THAT(refusal(negative, 300, TokenDType::sixty_four), HasSubstr("byte 8: token 1 is -1"));
}

// Returns a file of NumPy in version 1.0 of its format.
std::string npy(std::string_view dtype, std::string_view shape, const std::string& data) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", dtype, shape);
  header.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + data;
}

TEST(TokenIdFile, ReadsNpyByItsHeader) {
  const TemporaryFile wide(npy("<i8", "(5,)", bytes_of<std::int64_t>({5, 6, 7, 8, 9})));
  const TokenIdFile ids = open(wide, 300);
  EXPECT_EQ(ids.tokens(), 5);
  EXPECT_THAT(read(ids, 1, 3), ElementsAre(6, 7, 8));
  const TemporaryFile narrow(npy("<u2", "(3,)", bytes_of<std::uint16_t>({5, 0, 65535})));
  EXPECT_THAT(read(open(narrow, 128256), 0, 3), ElementsAre(5, 0, 65535));
  const TemporaryFile bytes(npy("|u1", "(3,)", "abc"));
  EXPECT_THAT(read(open(bytes, 256), 0, 3), ElementsAre('a', 'b', 'c'));
  // With a header, every second id may be 0.
  const TemporaryFile zeros(npy("<u2", "(4,)", bytes_of<std::uint16_t>({5, 0, 6, 0})));
  EXPECT_THAT(read(open(zeros, 300), 0, 4), ElementsAre(5, 0, 6, 0));
  const Corpus corpus(CorpusFile(ids, Tokenizer::ids(300)));
  std::vector<std::int64_t> found(2);
  corpus.read(corpus.seek(3), found);
  EXPECT_THAT(found, ElementsAre(8, 9));
}

TEST(TokenIdFile, RejectsNpyOtherThanIntegerVectors) {
  const auto refused = [](std::string_view dtype, std::string_view shape, std::size_t bytes) {
    return refusal(TemporaryFile(npy(dtype, shape, std::string(bytes, '\1'))), 300);
  };
  EXPECT_THAT(refused("<f4", "(2,)", 8), HasSubstr("found dtype '<f4'"));
  EXPECT_THAT(refused(">i4", "(2,)", 8), HasSubstr("found dtype '>i4'"));
  EXPECT_THAT(refused("<i4", "(2, 1)", 8), HasSubstr("found shape (2, 1)"));
  EXPECT_THAT(refused("<i4", "()", 4), HasSubstr("found shape ()"));
  EXPECT_THAT(refused("<i4", "(2,)", 7), HasSubstr("check whether the file is truncated"));
  EXPECT_THAT(refusal(TemporaryFile("\x93NUMPY\1"), 300), HasSubstr("a truncated header"));
  const TemporaryFile wide(npy("<i8", "(1,)", bytes_of<std::int64_t>({5})));
  EXPECT_THAT(refusal(wide, 300, TokenDType::sixteen),
              HasSubstr("data.token_dtype is uint16, but its header has ids of 64 bits"));
  EXPECT_EQ(refusal(wide, 300, TokenDType::sixty_four), "");
}

TEST(TokenIdFile, RejectsOtherFileFormats) {
  const std::string rest(100, '\1');
  const std::string safetensors =
      bytes_of<std::uint64_t>({20}) + "{\"ids\":{\"dtype\":\"I64" + rest;
  const std::string gzip = std::string("\x1F\x8B\x08\0\0\0\0\0\0\3", 10) + rest;
  for (const auto& [bytes, part] :
       {std::pair<std::string, const char*>("PK\3\4" + rest, "numpy.savez"),
        {"\x89HDF\r\n\x1A\n" + rest, "HDF5"},
        {std::string("MMIDIDX\0\0", 9) + rest, "set the path to the .bin file next to it"},
        {"\x28\xB5\x2F\xFD" + rest, "zstd -d"},
        {gzip, "gunzip"},
        {safetensors, "safetensors"},
        {"In the beginning God created the heaven and the earth. And the \xC3\xA9 ", "found text"}})
    EXPECT_THAT(refusal(TemporaryFile(bytes), 65536), HasSubstr(part));
}

// Writes ids.bin with 32-bit ids and ids.idx of Megatron-LM. `lengths`: ids of each sequence;
// `documents`: their first sequences.
class IndexedIds {
 public:
  IndexedIds(std::vector<std::int32_t> lengths, const std::vector<std::int64_t>& documents) {
    const std::int32_t count = std::accumulate(lengths.begin(), lengths.end(), 0);
    write("ids.bin", bytes_of(counted<std::int32_t>(static_cast<std::size_t>(count), 1)));
    std::vector<std::int64_t> begins;
    std::int64_t begin = 0;
    for (const std::int32_t length : lengths) {
      begins.push_back(begin);
      begin += 4 * length;
    }
    index = std::string("MMIDIDX\0\0", 9) + bytes_of<std::uint64_t>({1}) + '\4' +
            bytes_of<std::uint64_t>({lengths.size(), documents.size()}) + bytes_of(lengths) +
            bytes_of(begins) + bytes_of(documents);
    write("ids.idx", index);
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_.path() / name, std::ios::binary) << bytes;
  }
  std::string path(const std::string& name = "ids.bin") const {
    return (directory_.path() / name).string();
  }
  TokenIdFile open(std::int64_t vocabulary = 300, TokenDType bits = TokenDType::fitting) const {
    return {std::make_shared<const InputFile>(path()), vocabulary, bits};
  }
  std::string refusal(TokenDType bits = TokenDType::fitting) const {
    return message_of<DataError>([&] { open(300, bits); });
  }

  std::string index;

 private:
  testing::TemporaryDirectory directory_;
};

TEST(TokenIdFile, ReadsDtypeAndDocumentsFromMegatronIndex) {
  const IndexedIds files({2, 3, 1}, {0, 1, 3});
  const TokenIdFile ids = files.open();
  EXPECT_EQ(ids.id_bytes(), 4);  // 2 bytes would fit the vocabulary
  EXPECT_THAT(read(ids, 0, 6), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(ids.documents(), 2);
  const DocumentList documents(Corpus(CorpusFile(ids, Tokenizer::ids(300))), 100);
  ASSERT_EQ(documents.count(), 2);
  EXPECT_EQ(documents.at(0).end, 2);
  EXPECT_EQ(documents.at(1).begin, 2);
  EXPECT_EQ(documents.at(1).end, 6);
  EXPECT_THAT(files.refusal(TokenDType::sixteen), HasSubstr("ids.idx has ids of 32 bits"));
  EXPECT_EQ(files.refusal(TokenDType::thirty_two), "");
  EXPECT_THAT(message_of<DataError>([&] { files.open(4); }),
              HasSubstr("read as an id of 32 bits (from " + files.path("ids.idx") + ")"));
}

TEST(TokenIdFile, SkipsEmptyDocumentsOfMegatronIndex) {
  // Documents without sequences, and with an empty sequence.
  const IndexedIds files({2, 0, 3}, {0, 0, 1, 1, 2, 3, 3});
  const TokenIdFile ids = files.open();
  ASSERT_EQ(ids.documents(), 2);
  EXPECT_EQ(ids.document_begin(0), 0);
  EXPECT_EQ(ids.document_begin(1), 2);
  EXPECT_EQ(ids.document_begin(2), 5);
}

TEST(TokenIdFile, RejectsDamagedOrMismatchedMegatronIndex) {
  IndexedIds files({2, 3, 1}, {0, 1, 3});
  const auto with = [&](std::size_t at, char byte) {
    std::string index = files.index;
    index[at] = byte;
    files.write("ids.idx", index);
    return files.refusal();
  };
  EXPECT_THAT(with(9, 2), HasSubstr("expected version 1, found 2"));
  EXPECT_THAT(with(17, 6), HasSubstr("expected an integer dtype, found code 6"));
  EXPECT_THAT(with(17, 5), HasSubstr("sequence 1 of 3 ids: expected byte"));
  EXPECT_THAT(with(18, 9), HasSubstr("9 sequences and 2 documents"));
  EXPECT_THAT(with(42, 0), HasSubstr("its sequences have 5 ids"));
  EXPECT_THAT(with(42, 7), HasSubstr("sequence 2 of 7 ids of 32 bits at byte 20 exceeds"));
  EXPECT_THAT(with(45, 0x7F), HasSubstr("sequence 2 of 2130706433 ids of 32 bits"));
  EXPECT_THAT(with(78, 4), HasSubstr("document 1 begins at sequence 4 of 3"));
  files.write("ids.idx", files.index.substr(0, 20));
  EXPECT_THAT(files.refusal(), HasSubstr("expected at least 34 bytes, found 20"));
  files.write("ids.idx", "another kind of index");
  EXPECT_THAT(files.refusal(), HasSubstr("ids.idx: expected a Megatron-LM index for"));
}

TEST(TokenIdFile, RejectsPartialIds) {
  const TemporaryFile file("abc");
  EXPECT_THAT(refusal(file, 40000),
              HasSubstr("expected whole ids of 16 bits (data.token_dtype), found 3 bytes"));
  EXPECT_THAT(refusal(file, 100000), HasSubstr("expected whole ids of 32 bits"));
}

TEST(TokenIdFile, ReportsFileTruncatedWhileReading) {
  const TemporaryFile file(bytes_of(counted<std::uint16_t>(10000)));
  const TokenIdFile opened = open(file, 10000);
  file.resize(100);
  EXPECT_THAT(message_of<DataError>([&] { read(opened, 9000, 10); }),
              HasSubstr("truncated while reading"));
}

TEST(TokenIdFile, StreamsResumeExactlyOnDifferentRankCount) {
  const TemporaryFile file(bytes_of(counted<std::uint32_t>(102, 70000)));
  const Corpus corpus(CorpusFile(open(file, 80000), Tokenizer::ids(80000)));
  EXPECT_EQ(corpus.tokens(), 102);
  EXPECT_FALSE(corpus.is_text());
  const StreamLayout layout{.streams = 4, .segment = 5};
  StreamSource whole(corpus, layout, 0, 1, Device::cpu());
  whole.next();
  const Tensor cursors = whole.cursors();
  const Batch expected = whole.next();
  EXPECT_EQ(expected.count("bytes"), 0);
  const auto all = expected.field("tokens").span<std::int64_t>();
  EXPECT_EQ(all[0], 70005);
  EXPECT_EQ(all[5], 70030);
  for (int rank = 0; rank < 2; ++rank) {
    StreamSource part(corpus, layout, rank, 2, Device::cpu());
    part.restore(cursors.slice(part.range().begin, part.range().end));
    const Batch batch = part.next();
    const auto found = batch.field("tokens").span<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], all[static_cast<std::size_t>(rank) * 10 + i]);
  }
  EvaluationReader once(corpus, {2, 101}, 0, 1, Device::cpu());
  EXPECT_EQ(once.next().count("tokens"), 101);
}

TEST(TokenIdFile, FingerprintDistinguishesDtypeAndVocabulary) {
  const TemporaryFile file(bytes_of<std::uint32_t>({5, 6, 7, 8}));
  const auto print = [&](std::int64_t vocabulary, TokenDType bits) {
    return CorpusFile(open(file, vocabulary, bits), Tokenizer::ids(vocabulary)).fingerprint();
  };
  EXPECT_EQ(print(300, TokenDType::thirty_two), print(300, TokenDType::thirty_two));
  EXPECT_NE(print(300, TokenDType::thirty_two), print(300, TokenDType::sixteen));
  EXPECT_NE(print(300, TokenDType::thirty_two), print(301, TokenDType::thirty_two));
}

TEST(TokenIdFile, Reads100GigabytesInBoundedMemory) {
  const TemporaryFile file(bytes_of<std::uint16_t>({9, 8}));
  constexpr std::int64_t size = 100'000'000'000;
  file.resize(static_cast<std::uintmax_t>(size));
  DataOptions options;
  options.format = DataFormat::tokens;
  const std::clock_t begin = std::clock();  // processor time
  const Corpus corpus = open_corpus(file.path(), options, Tokenizer::ids(50257), "", {});
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);  // s: no full scan
  EXPECT_EQ(corpus.tokens(), size / 2);
  StreamSource reader(corpus, {.streams = 4, .segment = 1 << 20}, 0, 1, Device::cpu());
  EXPECT_EQ(reader.next().field("tokens").span<std::int64_t>()[1], 8);
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

TEST(Tokenizer, EncodesAndDecodesSpaceSeparatedIds) {
  const Tokenizer tokenizer = Tokenizer::ids(300);
  EXPECT_EQ(tokenizer.vocabulary(), 300);
  EXPECT_THAT(tokenizer.encode(" 15\t0 299\n", "the prompt"), ElementsAre(15, 0, 299));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{15, 0, 299}), " 15 0 299");
  EXPECT_THAT(message_of<DataError>([&] { tokenizer.encode("15 In", "the prompt"); }),
              HasSubstr("the prompt: byte 3: expected a token id from 0 to 299, found \"In\""));
  for (const char* text : {"300", "-1", "1.5", "99999999999999999999"})
    EXPECT_THAT(message_of<DataError>([&] { tokenizer.encode(text, "the prompt"); }),
                HasSubstr(text));
  EXPECT_THROW(tokenizer.decode(std::vector<std::int64_t>{300}), DataError);
}

TEST(Tokenizer, IdTokenizerRoundTripsThroughJson) {
  const Tokenizer tokenizer = Tokenizer::ids(300);
  EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json(), "here"), tokenizer);
  EXPECT_NE(Tokenizer::ids(301), tokenizer);
  EXPECT_NE(Tokenizer::ids(256), Tokenizer());
  EXPECT_NE(Tokenizer::ids(301).fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(message_of<DataError>([] {
              Tokenizer::from_json(
                  R"({"format":"longspan-tokenizer","version":1,"kind":"ids","vocabulary":0})",
                  "here");
            }),
            "here: expected a vocabulary of at least 1 id, found 0");
}

}  // namespace
}  // namespace longspan::token_id_file_test
