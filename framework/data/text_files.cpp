#include "framework/data/text_files.h"

#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "framework/core/error.h"
#include "framework/data/first_rank.h"
#include "framework/data/line_pieces.h"
#include "framework/data/lines.h"
#include "framework/data/subword_training.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenizer_file.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of_text(const MappedFile& file, const ScanListener& heard) {
  XXH3_state_t* const hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  std::vector<char> buffer(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const auto length = std::min<std::int64_t>(std::ssize(buffer), file.size() - at);
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(length));
    file.copy(at, bytes);
    file.release(at, at + length);
    XXH3_64bits_update(hash, bytes.data(), bytes.size());
    at += length;
    if (heard) heard({file.path(), at, file.size()});
  }
  const std::uint64_t result = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  return result;
}

std::uint64_t hash_of(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

// Tokens on their way to a file. Bytes in which the model sees nothing belong to the token after
// them, and at the end to the last one.
class TokenQueue {
 public:
  explicit TokenQueue(TokenFileWriter& writer) : writer_(writer) {}
  void skip(std::int64_t bytes) { unseen_ += bytes; }
  void push(SubwordToken token) {
    token.bytes += std::exchange(unseen_, 0);
    if (held_) writer_.add(*held_);
    held_ = token;
  }
  // False when there was none.
  bool finish() {
    if (!held_) return false;
    held_->bytes += unseen_;
    writer_.add(*held_);
    return true;
  }

 private:
  TokenFileWriter& writer_;
  std::optional<SubwordToken> held_;
  std::int64_t unseen_ = 0;
};

std::vector<std::vector<SubwordToken>> encode_lines(const SubwordModel& model,
                                                    std::span<const LinePiece> lines) {
  std::vector<std::vector<SubwordToken>> encoded(lines.size());
  in_parallel(lines.size(), [&](std::size_t i) { encoded[i] = model.encode_line(lines[i].text); });
  return encoded;
}

void write_tokens(const MappedFile& text,
                  const SubwordModel& model,
                  const fs::path& path,
                  const TokenFileKey& key,
                  const ScanListener& heard) {
  TokenFileWriter writer(path, key);
  TokenQueue queue(writer);
  LineReader reader(text, 0, text.size());
  while (reader.next()) {
    const auto lines = reader.pieces();
    const auto encoded = encode_lines(model, lines);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const SubwordToken& token : encoded[i]) queue.push(token);
      if (encoded[i].empty()) queue.skip(static_cast<std::int64_t>(lines[i].text.size()));
      if (lines[i].ends_line) queue.push({model.line_end(), 1});
    }
    if (heard) heard({text.path(), reader.at(), text.size()});
  }
  if (!queue.finish()) throw DataError("{}: the model sees nothing in it", text.path());
  writer.finish();
}

// The whole text is one document, and in memory.
void write_tokens(const MappedFile& text,
                  const JsonTokenizer& model,
                  const fs::path& path,
                  const TokenFileKey& key,
                  const ScanListener& heard) {
  TokenFileWriter writer(path, key);
  TokenQueue queue(writer);
  std::string whole(static_cast<std::size_t>(text.size()), '\0');
  text.copy(0, whole);
  constexpr std::int64_t between_reports = 1 << 16;
  // Up to `at` bytes belong to tokens: of a very long one the rest to those behind it.
  std::int64_t at = 0, told = 0;
  model.encode(whole, text.path(), [&](const JsonToken& token) {
    const std::int64_t bytes = std::min(token.end - at, most_token_bytes);
    queue.push({token.id, bytes});
    at += bytes;
    if (!heard || at - told < between_reports) return;
    told = at;
    heard({text.path(), at, text.size()});
  });
  queue.skip(text.size() - at);
  if (!queue.finish()) throw DataError("{}: the tokenizer sees nothing in it", text.path());
  writer.finish();
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    throw ConfigurationError(
        "{}: cannot be written: {}; it is to hold the tokens of texts, for which data.token_cache "
        "can name another folder",
        directory.string(),
        error.message());
}

fs::path token_path(const MappedFile& text, const TokenFileKey& key, const fs::path& directory) {
  const std::uint64_t hash = hash_of(fmt::format(
      "1 {} {:x} {:x} {}", longest_line_piece, key.text, key.tokenizer, key.text_bytes));
  return directory / fmt::format("{}-{:016x}.tokens", fs::path(text.path()).stem().string(), hash);
}

SubwordModel trained_model(const DataOptions& options,
                           const fs::path& directory,
                           const ScanListener& heard) {
  const MappedFile text(options.train);
  std::optional<MappedFile> target;
  std::vector<const MappedFile*> texts = {&text};
  if (!options.train_target.empty()) texts.push_back(&target.emplace(options.train_target));
  std::string key = "1";
  for (const MappedFile* file : texts)
    key += fmt::format(" {:x} {}", hash_of_text(*file, heard), file->size());
  const std::uint64_t hash =
      hash_of(fmt::format("{} {} {}", key, name_of(options.tokenizer_kind), options.vocabulary));
  const fs::path path = directory / fmt::format("tokenizer-{:016x}.model", hash);
  std::error_code unused;
  if (fs::exists(path, unused)) return read_subword_model(path.string());
  SubwordModel model = train_subwords(texts, options.tokenizer_kind, options.vocabulary, heard);
  write_subword_model(model, path.string());
  return model;
}

}  // namespace

fs::path token_directory(const DataOptions& options, const fs::path& run_directory) {
  return options.token_cache.empty() ? run_directory / "tokens"
                                     : fs::path(options.token_cache.text());
}

Tokenizer prepare_tokenizer(const DataOptions& options,
                            const fs::path& run_directory,
                            const Communicator& all,
                            const ScanListener& listener) {
  if (options.tokenizer == TokenizerKind::tokenizer_json) {
    const NamedPath& source = options.tokenizer_model;
    const std::string json = on_first_rank(all, source, 0, {}, [source](const ScanListener&) {
      return read_json_tokenizer(source).json();
    });
    return Tokenizer::of_package(JsonTokenizer(json, source.told()));
  }
  if (options.tokenizer != TokenizerKind::sentencepiece) return make_tokenizer(options, listener);
  const bool trains = options.tokenizer_model.empty();
  const NamedPath& source = trains ? options.train : options.tokenizer_model;
  const std::string bytes =
      on_first_rank(all,
                    source,
                    trains ? MappedFile(source).size() : 0,
                    trains ? listener : ScanListener(),
                    [options, run_directory, trains](const ScanListener& heard) {
                      return (trains ? trained_model(options, run_directory, heard)
                                     : read_subword_model(options.tokenizer_model))
                          .bytes();
                    });
  return Tokenizer::subwords(SubwordModel(bytes, source.told()));
}

Corpus open_corpus(const NamedPath& path,
                   const Tokenizer& tokenizer,
                   const fs::path& tokens,
                   const Communicator& all,
                   const ScanListener& listener) {
  auto text = std::make_shared<const MappedFile>(path);
  if (!tokenizer.needs_token_file()) {
    Corpus corpus(CorpusFile(std::move(text), tokenizer, listener));
    require_same_corpus(corpus, all);
    return corpus;
  }
  TokenFileKey key = {.tokenizer = tokenizer.fingerprint(),
                      .text_bytes = text->size(),
                      .vocabulary = tokenizer.vocabulary()};
  const auto provide = [text, tokens, tokenizer](const TokenFileKey& of,
                                                 const ScanListener& heard) {
    const fs::path file = token_path(*text, of, tokens);
    std::error_code unused;
    if (!fs::exists(file, unused)) {
      make_directory(tokens);
      if (const JsonTokenizer* const model = tokenizer.json_tokenizer())
        write_tokens(*text, *model, file, of, heard);
      else
        write_tokens(*text, *tokenizer.subword_model(), file, of, heard);
    }
    return file;
  };
  const std::string hash = on_first_rank(
      all, text->path(), text->size(), listener, [text, key, provide](const ScanListener& heard) {
        TokenFileKey of = key;
        of.text = hash_of_text(*text, heard);
        provide(of, heard);
        return std::to_string(of.text);
      });
  key.text = std::stoull(hash);
  const Corpus corpus(
      CorpusFile(text, tokenizer, std::make_shared<const TokenFile>(provide(key, listener), key)));
  require_same_corpus(corpus, all);
  return corpus;
}

Corpus open_corpus(const NamedPath& path,
                   const DataOptions& options,
                   const Tokenizer& tokenizer,
                   const fs::path& run_directory,
                   const Communicator& all,
                   const ScanListener& listener) {
  if (options.format != DataFormat::tokens)
    return open_corpus(path, tokenizer, token_directory(options, run_directory), all, listener);
  const IdFile ids(
      std::make_shared<const MappedFile>(path), tokenizer.vocabulary(), options.token_bits);
  const Corpus corpus(CorpusFile(ids, tokenizer));
  require_same_corpus(corpus, all);
  return corpus;
}

}  // namespace longspan
