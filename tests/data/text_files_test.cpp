#include "framework/data/corpus/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/tokenization/tokenizer_training.h"
#include "tests/data/packed_text.h"
#include "tests/data/subword_text.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::text_files_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::vector<std::int64_t> all_of(const Corpus& corpus) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.tokens()));
  EXPECT_EQ(corpus.read({}, ids), (CorpusPosition{corpus.tokens(), corpus.bytes()}));
  return ids;
}

Corpus open_text(const std::string& path,
                 const Tokenizer& tokenizer,
                 const std::filesystem::path& tokens) {
  DataOptions options;
  options.token_cache = tokens.string();
  return open_corpus(path, options, tokenizer, "", {});
}

TEST(TextFiles, SubwordCorpusMatchesEncodedText) {
  const testing::TemporaryDirectory folder;
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  // Lines longer than a chunk, blank lines, no final newline.
  for (const std::string& text : {subword_text(5000, 2),
                                  subword_text(3, 2) + std::string(100'000, 'k') + "\n \n\n" +
                                      std::string(40'000, ' ') + "balo"}) {
    const TemporaryFile file(text);
    const Corpus corpus = open_text(file.path(), tokenizer, folder.path());
    EXPECT_EQ(all_of(corpus), tokenizer.encode(text, "text"));
    EXPECT_EQ(tokenizer.decode(all_of(corpus)), text);
  }
}

TEST(TextFiles, CachesTokensPerTextAndTokenizer) {
  const testing::TemporaryDirectory folder;
  const TemporaryFile file(subword_text());
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  const auto tokens = folder.path() / "a" / "b";
  open_text(file.path(), tokenizer, tokens);
  const auto first = files_in(tokens);
  ASSERT_EQ(first.size(), 1);
  const auto written = std::filesystem::last_write_time(first[0]);
  open_text(file.path(), tokenizer, tokens);
  EXPECT_EQ(files_in(tokens), first);
  EXPECT_EQ(std::filesystem::last_write_time(first[0]), written);
  const Tokenizer other = Tokenizer::subwords(subword_model(SentencePieceModelType::unigram));
  open_text(file.path(), other, tokens);
  EXPECT_EQ(files_in(tokens).size(), 2);
  file.write(subword_text(400, 9));
  const Corpus changed = open_text(file.path(), tokenizer, tokens);
  EXPECT_EQ(files_in(tokens).size(), 3);
  EXPECT_EQ(all_of(changed), tokenizer.encode(subword_text(400, 9), "text"));
}

TEST(TextFiles, EvaluationCountsTextBytes) {
  const testing::TemporaryDirectory folder;
  const std::string text = "x" + subword_text(50, 3);
  const TemporaryFile file(text);
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  const Corpus corpus = open_text(file.path(), tokenizer, folder.path());
  for (const std::int64_t streams : {1, 3}) {
    EvaluationReader reader(corpus, {streams, 16}, 0, 1, Device::cpu());
    std::int64_t bytes = 0;
    std::int64_t tokens = 0;
    while (!reader.done()) {
      const Batch batch = reader.next();
      bytes += batch.count("bytes");
      tokens += batch.count("tokens");
    }
    EXPECT_EQ(tokens, corpus.tokens() - 1);
    EXPECT_EQ(bytes, std::ssize(text) - corpus.seek(1).byte);
  }
}

TEST(TextFiles, InvalidTextLeavesNoTokenFile) {
  const testing::TemporaryDirectory folder;
  const TemporaryFile file("balo\ntir\xFF\n");
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  EXPECT_THAT(message_of<DataError>([&] { open_text(file.path(), tokenizer, folder.path()); }),
              HasSubstr(file.path() + ": byte 8: expected UTF-8, found bytes ff"));
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(TextFiles, ReportsDamagedTokenFile) {
  const testing::TemporaryDirectory folder;
  const TemporaryFile file(subword_text());
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  open_text(file.path(), tokenizer, folder.path());
  const auto tokens = files_in(folder.path())[0];
  std::filesystem::resize_file(tokens, 1000);
  EXPECT_EQ(message_of<DataError>([&] { open_text(file.path(), tokenizer, folder.path()); }),
            tokens.string() + ": is corrupt; delete it");
}

TEST(TextFiles, ReportsUnwritableCacheDirectory) {
  const TemporaryFile file(subword_text());
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  EXPECT_THAT(message_of<ConfigurationError>(
                  [&] { open_text(file.path(), tokenizer, file.path() + "/tokens"); }),
              AllOf(HasSubstr("/tokens: cannot be written: Not a directory"),
                    HasSubstr("set data.cache_dir to another directory")));
}

TEST(TextFiles, TrainsAndSavesSentencePieceOnFirstUse) {
  const testing::TemporaryDirectory folder;
  const TemporaryFile file(subword_text());
  DataOptions options;
  options.train = file.path();
  options.tokenizer = TokenizerKind::sentencepiece;
  options.vocabulary = 320;
  const Tokenizer first = prepare_tokenizer(options, folder.path(), {});
  EXPECT_EQ(first.vocabulary(), 320);
  EXPECT_EQ(planned_vocabulary(options), 320);
  const auto model = files_in(folder.path());
  ASSERT_EQ(model.size(), 1);
  EXPECT_EQ(read_subword_model(model[0].string()), *first.subword_model());
  EXPECT_EQ(prepare_tokenizer(options, folder.path(), {}), first);
  EXPECT_EQ(files_in(folder.path()), model);
  // An existing model is read, not trained.
  const SentencePieceModel other = subword_model(SentencePieceModelType::unigram);
  write_subword_model(other, model[0].string());
  EXPECT_EQ(*prepare_tokenizer(options, folder.path(), {}).subword_model(), other);
  // Other options and other texts have other models.
  options.tokenizer_kind = SentencePieceModelType::words;
  prepare_tokenizer(options, folder.path(), {});
  EXPECT_EQ(files_in(folder.path()).size(), 2);
  file.write(subword_text(400, 9));
  prepare_tokenizer(options, folder.path(), {});
  EXPECT_EQ(files_in(folder.path()).size(), 3);
  // An explicit path takes precedence.
  options.tokenizer_model = model[0].string();
  EXPECT_EQ(*prepare_tokenizer(options, "/nowhere", {}).subword_model(), other);
  EXPECT_EQ(planned_vocabulary(options), other.vocabulary());
}

TEST(TextFiles, TrainsAndSavesTokenizerJsonOnFirstUse) {
  const testing::TemporaryDirectory folder;
  const TemporaryFile file(subword_text());
  DataOptions options;
  options.train = file.path();
  options.tokenizer = TokenizerKind::tokenizer_json;
  options.vocabulary = 320;
  for (const SentencePieceModelType kind :
       {SentencePieceModelType::bpe, SentencePieceModelType::word_pieces}) {
    options.tokenizer_kind = kind;
    options.vocabulary = kind == SentencePieceModelType::bpe ? 320 : 270;
    EXPECT_EQ(planned_vocabulary(options), options.vocabulary);
    const Tokenizer first = prepare_tokenizer(options, folder.path(), {});
    EXPECT_EQ(first.vocabulary(), options.vocabulary);
    EXPECT_EQ(prepare_tokenizer(options, folder.path(), {}), first);
  }
  EXPECT_EQ(files_in(folder.path()).size(), 2);
}

// Parts encoded on several threads must match the whole text.
TEST(TextFiles, TokenizerJsonEncodesLongFileInParts) {
  const testing::TemporaryDirectory folder;
  std::string text;
  while (text.size() < 900'000) text += subword_text(400, static_cast<unsigned>(text.size() % 97));
  text += std::string(600'000, 'x');  // no chunk boundary
  const TemporaryFile file(text);
  const std::shared_ptr<const InputFile> texts[] = {std::make_shared<const InputFile>(file.path())};
  TokenizerRules rules = usual_rules(TrainedKind::byte_pairs);
  rules.vocabulary = 330;
  const JsonTokenizer model = train_json_tokenizer(texts, "text", rules);
  ASSERT_TRUE(model.supports_chunking());
  const Corpus corpus = open_text(file.path(), Tokenizer::from_huggingface(model), folder.path());
  const std::vector<std::int64_t> ids = all_of(corpus);
  EXPECT_EQ(ids, model.ids(text, "text"));
  EXPECT_EQ(model.decode(ids), text);
}

// Returns the tokenizer.json that a run trains on these texts.
std::string trained_on(const PathList& texts) {
  const testing::TemporaryDirectory folder;
  DataOptions options;
  options.train = texts;
  options.tokenizer = TokenizerKind::tokenizer_json;
  options.tokenizer_kind = SentencePieceModelType::bpe;
  options.vocabulary = 320;
  return prepare_tokenizer(options, folder.path(), {}).json_tokenizer()->json();
}

TEST(TextFiles, TokenizerJsonTrainsOnCompressedFilesAndLists) {
  const testing::TemporaryDirectory folder;
  const auto write = [&folder](const std::string& name, const std::string& content) {
    const std::string path = (folder.path() / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return ConfigPath(path);
  };
  const std::string one = subword_text(500, 2);
  const std::string other = subword_text(300, 9);
  std::string lines;
  for (const std::string& text : {one, other})
    lines += nlohmann::json({{"body", "no"}, {"text", text}}).dump() + "\n";
  const std::string plain = trained_on(PathList({{write("a.txt", one)}, {write("b.txt", other)}}));
  EXPECT_EQ(trained_on(PathList(
                {{write("a.gz", gzip_of(one)), 3.0}, {write("b.zst", zstd_of(other)), 0.5}})),
            plain);
  EXPECT_EQ(trained_on(write("a.jsonl.gz", gzip_of(lines))), plain);
  EXPECT_EQ(trained_on((folder.path() / "?.txt").string()), plain);
  EXPECT_NE(trained_on(write("c.txt", one)), plain);
}

TEST(TextFiles, TokenizerJsonDoesNotDependOnThreadCount) {
  const TemporaryFile file(subword_text(40'000, 3));
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::string one = trained_on(file.path());
  omp_set_num_threads(3);
  const std::string three = trained_on(file.path());
  omp_set_num_threads(before);
  EXPECT_EQ(one, three);
}

// The normalizer Prepend applies only to the beginning of a text.
TEST(TextFiles, PrependsOnlyToFirstPart) {
  const testing::TemporaryDirectory folder;
  const JsonTokenizer model(R"({"version": "1.0", "added_tokens": [],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true,
          "byte_fallback": false,
          "vocab": {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4}, "merges": ["▁ a"]}})",
                            "model");
  ASSERT_TRUE(model.supports_chunking());
  std::string text;
  while (text.size() < 400'000) text += "ab ba aab ";
  const TemporaryFile file(text);
  const Corpus corpus = open_text(file.path(), Tokenizer::from_huggingface(model), folder.path());
  EXPECT_EQ(all_of(corpus), model.ids(text, "text"));
}

}  // namespace
}  // namespace longspan::text_files_test
