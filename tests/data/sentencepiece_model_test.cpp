#include "framework/data/tokenization/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <random>

#include "framework/core/error.h"
#include "framework/data/tokenization/tokenizer.h"
#include "tests/data/subword_text.h"
#include "tests/data/third_party_model.h"

namespace longspan::sentencepiece_model_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array kinds = {SentencePieceModelType::unigram,
                              SentencePieceModelType::bpe,
                              SentencePieceModelType::characters,
                              SentencePieceModelType::words};

TEST(SentencePieceModel, RoundTripsTextForEveryType) {
  for (const SentencePieceModelType kind : kinds) {
    SCOPED_TRACE(name_of(kind));
    const SentencePieceModel model =
        subword_model(kind, kind == SentencePieceModelType::characters ? 1000 : 320);
    const Tokenizer tokenizer = Tokenizer::subwords(model);
    EXPECT_EQ(tokenizer.kind(), TokenizerKind::sentencepiece);
    EXPECT_EQ(tokenizer.vocabulary(), kind == SentencePieceModelType::characters ? 274 : 320);
    for (const std::string& text : {std::string("balo tir\nmen"),
                                    std::string("\n"),
                                    std::string("\n\n balo  \n   \n"),
                                    std::string("\xC3\xA9t \xE6\xBC\xA2\xF0\x9F\x98\x80 \t\r\nx"),
                                    std::string("a\0b \0", 5),
                                    std::string("<s> </s> <unk> <0x0A>"),
                                    std::string("</s>\n<0x0A>\n<0x0A> x\n<unk>"),
                                    std::string("\xE2\x81\x87 \xEF\xBB\xBF \xC2\xA0"),
                                    std::string("e\xCC\x81 \xEF\xAC\x81 \xEF\xBC\xA1")}) {
      SCOPED_TRACE(::testing::PrintToString(text));
      const auto ids = tokenizer.encode(text, "text");
      EXPECT_EQ(tokenizer.decode(ids), text);
      EXPECT_FALSE(ids.empty());
    }
    EXPECT_TRUE(tokenizer.encode("", "text").empty());
  }
}

TEST(SentencePieceModel, EncodesUnknownCharactersAsBytes) {
  const SentencePieceModel words = subword_model(SentencePieceModelType::words);
  EXPECT_EQ(words.encode_line(" ba ba ba").size(), 3);
  const SentencePieceModel pairs = subword_model(SentencePieceModelType::bpe);
  EXPECT_LT(pairs.encode_line("balotir menkasu").size(), 8);
  EXPECT_EQ(pairs.encode_line("\xE6\xBC\xA2").size(), 3);
}

TEST(SentencePieceModel, TokenBytesSumToLineLength) {
  const std::string line = "  balo  \xE6\xBC\xA2\xC3\xA9t \xEF\xAC\x81 ";
  const auto bytes_of = [&line](const SentencePieceModel& model) {
    std::int64_t bytes = 0;
    for (const SubwordToken& token : model.encode_line(line)) {
      EXPECT_GE(token.bytes, 0);
      bytes += token.bytes;
    }
    return bytes;
  };
  for (const SentencePieceModelType kind : kinds)
    EXPECT_EQ(bytes_of(subword_model(kind, kind == SentencePieceModelType::characters ? 270 : 320)),
              std::ssize(line));
  EXPECT_EQ(bytes_of(SentencePieceModel(foreign_model("true", "2"), "model")), std::ssize(line));
}

TEST(SentencePieceModel, ThirdPartyModelsMatchLibrary) {
  for (const std::string& bytes :
       {foreign_model("true", "2"), foreign_model("false", "-1"), llama_model()}) {
    const SentencePieceModel model(bytes, "model");
    EXPECT_FALSE(model.encodes_lines());
    const Tokenizer tokenizer = Tokenizer::subwords(model);
    for (const std::string text : {"\n", "\n\n", "balo\ntir", " balo \n\n  tir\t\nmen\n", "\tba"}) {
      SCOPED_TRACE(::testing::PrintToString(text));
      EXPECT_EQ(tokenizer.encode(text, "text"), ids_of_library(bytes, text));
    }
  }
  const Tokenizer llama = Tokenizer::subwords(SentencePieceModel(llama_model(), "model"));
  EXPECT_EQ(llama.decode(llama.encode("balo  tir\n\nmen\n", "text")), "balo  tir\n\nmen\n");
  EXPECT_TRUE(subword_model().encodes_lines());
}

TEST(SentencePieceModel, ChunkedEncodingMatchesWholeText) {
  const std::string text = subword_text(6000, 3);
  const std::string bytes = llama_model();
  const SentencePieceModel model(bytes, "model");
  ASSERT_TRUE(model.supports_chunking());
  const Tokenizer tokenizer = Tokenizer::subwords(model);
  EXPECT_EQ(tokenizer.encode(text, "text"), ids_of_library(bytes, text));
  std::int64_t found = 0;
  model.encode(text, false, [&found](const SubwordToken& token) { found += token.bytes; });
  EXPECT_EQ(found, std::ssize(text));
}

// Returns words of these syllables, each followed by `between` or sometimes a newline.
std::string words_of(const std::vector<std::string>& syllables,
                     const std::string& between,
                     std::size_t bytes) {
  std::mt19937 generator(5);
  std::string text;
  while (text.size() < bytes) {
    for (unsigned part = 0; part < 1 + generator() % 4; ++part)
      text += syllables[generator() % syllables.size()];
    text += generator() % 9 == 0 ? "\n" : between;
  }
  return text;
}

TEST(SentencePieceModel, ChunkedEncodingMatchesInOtherScripts) {
  const std::vector<std::string> syllables = {"го", "род", "μέ", "λα", "नमस्ते", "é", "ﷺ", "ͺ"};
  for (const std::string& text : {words_of(syllables, " ", 9000), words_of(syllables, ", ", 9000)})
    for (const std::string& bytes :
         {llama_model(),
          foreign_model("true", "2"),
          foreign_model("false", "-1"),
          foreign_model("true", "2", {{"character_coverage", "0.98"}})}) {
      const SentencePieceModel model(bytes, "model");
      ASSERT_TRUE(model.supports_chunking());
      EXPECT_EQ(Tokenizer::subwords(model).encode(text, "text"), ids_of_library(bytes, text));
      std::int64_t found = 0;
      model.encode(text, false, [&found](const SubwordToken& token) { found += token.bytes; });
      EXPECT_EQ(found, std::ssize(text));
      for (std::size_t least = 1000; least < 6000; least += 500) {
        const std::size_t place = model.chunk_boundary(text, least);
        EXPECT_GE(place, least);
        EXPECT_LT(place, least + 300);
      }
    }
}

TEST(SentencePieceModel, SplitsTextWithoutSpacesAtNewlines) {
  const std::string text = words_of({"中", "文", "字", "。"}, "", 9000);
  const std::string bytes = foreign_model("true", "2");
  const SentencePieceModel model(bytes, "model");
  EXPECT_EQ(Tokenizer::subwords(model).encode(text, "text"), ids_of_library(bytes, text));
  const std::size_t place = model.chunk_boundary(text, 1000);
  ASSERT_LT(place, 1500U);
  EXPECT_EQ(text[place], '\n');
  // With identity normalization a newline is no space.
  EXPECT_EQ(SentencePieceModel(llama_model(), "model").chunk_boundary(text, 1000),
            std::string::npos);
}

TEST(SentencePieceModel, LineEndIsNewlineByteOrEos) {
  const SentencePieceModel bytes(foreign_model("true", "2"), "model");
  EXPECT_EQ(bytes.line_end(), 3 + 10);
  EXPECT_EQ(SentencePieceModel(foreign_model("false", "2"), "model").line_end(), 2);
  EXPECT_EQ(SentencePieceModel(foreign_model("false", "-1"), "model").line_end(), -1);
}

TEST(TrainSentencePiece, DoesNotDependOnThreadCount) {
  const int threads = omp_get_max_threads();
  for (const SentencePieceModelType kind :
       {SentencePieceModelType::unigram, SentencePieceModelType::bpe}) {
    omp_set_num_threads(1);
    const SentencePieceModel one = subword_model(kind);
    omp_set_num_threads(3);
    EXPECT_EQ(subword_model(kind), one);
  }
  omp_set_num_threads(threads);
}

TEST(TrainSentencePiece, SamplesLongText) {
  const TemporaryFile file(subword_text(6000, 7));
  const InputFile text(file.path());
  const auto train = [&text](std::int64_t sample) {
    return train_sentencepiece(text, SentencePieceModelType::bpe, 320, {}, sample);
  };
  EXPECT_EQ(train(text.size()), train(text.size() + 1));
  EXPECT_FALSE(train(150'000) == train(text.size()));
  EXPECT_EQ(train(150'000), train(150'000));
  const Tokenizer tokenizer = Tokenizer::subwords(train(150'000));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("balo tir", "text")), "balo tir");
}

TEST(TrainSentencePiece, RejectsUnsuitableVocabularyOrText) {
  const TemporaryFile file("one two three\nfour five six\n");
  const auto error_of = [&file](SentencePieceModelType kind, std::int64_t vocabulary) {
    return message_of<DataError>(
        [&] { train_sentencepiece(InputFile(file.path()), kind, vocabulary); });
  };
  for (const SentencePieceModelType kind : {SentencePieceModelType::unigram,
                                            SentencePieceModelType::bpe,
                                            SentencePieceModelType::words})
    EXPECT_THAT(error_of(kind, 5000),
                AllOf(HasSubstr(file.path() + ": a vocabulary of 5000 is too large: model_type " +
                                std::string(name_of(kind)) + " yields "),
                      HasSubstr(" pieces; set data.tokenizer.vocab_size to at most ")));
  EXPECT_EQ(error_of(SentencePieceModelType::bpe, 261),
            file.path() +
                ": a vocabulary of 261 is too small: its characters and the 256 bytes require 273; "
                "set data.tokenizer.vocab_size to at least 273");
  file.write("\n\n\n");
  EXPECT_EQ(error_of(SentencePieceModelType::bpe, 300), file.path() + ": has only empty lines");
  file.write("ab\xFFz\n");
  EXPECT_THAT(error_of(SentencePieceModelType::bpe, 300),
              HasSubstr("byte 2: expected UTF-8, found bytes ff"));
}

TEST(SentencePieceModel, RejectsInvalidModels) {
  const std::string refused = "m.model: expected a SentencePiece model (a .model file)";
  const std::string good = subword_model().bytes();
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("text\n"), good.substr(0, good.size() / 2)})
    EXPECT_EQ(message_of<DataError>([&] { SentencePieceModel(bytes, "m.model"); }), refused);
  EXPECT_THAT(message_of<DataError>([] { read_subword_model("nowhere.model"); }),
              HasSubstr("nowhere.model: cannot be opened"));
}

TEST(SentencePieceModel, SurvivesDamagedModels) {
  std::mt19937 generator(3);
  for (const std::string& good : {subword_model().bytes(), foreign_model("true", "2")}) {
    int rejected = 0;
    for (int i = 0; i < 150; ++i) {
      std::string damaged = good;
      damaged[generator() % damaged.size()] = static_cast<char>(generator() % 256);
      try {
        const Tokenizer tokenizer = Tokenizer::subwords(SentencePieceModel(damaged, "m.model"));
        tokenizer.decode(tokenizer.encode(" balo \xE6\xBC\xA2\n\nx", "text"));
      } catch (const DataError& error) {
        EXPECT_NE(std::string_view(error.what()), "");
        ++rejected;
      }
    }
    // A damaged piece or score leaves the model readable; a damaged length or type does not.
    EXPECT_GT(rejected, 0);
    EXPECT_LT(rejected, 150);
  }
}

// Encodes a field of a Protocol Buffers message: bytes, or a small number.
std::string field(int number, std::string_view bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} +
         std::string(bytes);
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

// Returns a word model with a symbol that equals a word.
std::string model_of_words() {
  constexpr int unknown = 2, symbol = 3, words = 3;
  const auto piece = [](std::string_view text, int type) {
    return field(1, field(1, text) + field(3, type));
  };
  return piece("<unk>", unknown) + piece("</s>", symbol) + piece("\xE2\x96\x81on", symbol) +
         field(2, field(3, words));
}

TEST(SentencePieceModel, RejectsLinesWithManySymbolLikeWords) {
  const SentencePieceModel model(model_of_words(), "m.model");
  EXPECT_FALSE(model.encode_line("other words").empty());
  std::int64_t bytes = 0;
  for (const SubwordToken& token : model.encode_line("a on b")) bytes += token.bytes;
  EXPECT_EQ(bytes, 6) << "also of a space alone, in which the model sees nothing";
  std::string line;
  for (int word = 0; word < 8000; ++word) line += "on ";
  EXPECT_THAT(message_of<DataError>([&] { model.encode_line(line); }),
              HasSubstr("the SentencePiece model cannot encode \""));
}

TEST(SentencePieceModel, TokenizerJsonRoundTripsModel) {
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  const std::string json = tokenizer.to_json();
  const Tokenizer read = Tokenizer::from_json(json, "checkpoint");
  EXPECT_EQ(read, tokenizer);
  EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
  EXPECT_FALSE(read == Tokenizer());
  EXPECT_FALSE(read == Tokenizer::subwords(subword_model(SentencePieceModelType::unigram)));
  std::string damaged = json;
  damaged[json.size() - 10] = 'x';
  EXPECT_EQ(message_of<DataError>([&] { Tokenizer::from_json(damaged, "checkpoint"); }),
            "checkpoint: expected hexadecimal digits in its model");
}

}  // namespace
}  // namespace longspan::sentencepiece_model_test
