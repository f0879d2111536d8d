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
#include "framework/data/text_part_reader.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenizer_file.h"
#include "framework/data/tokenizer_training.h"

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

// Tokens as they come, on their way to a file; a text is one document.
class DocumentQueue {
 public:
  DocumentQueue(TokenFileWriter& writer, std::int64_t text_bytes)
      : queue_(writer), text_bytes_(text_bytes) {}
  void push(const JsonToken& token) {
    // Of a very long one the rest belongs to those behind it.
    const std::int64_t bytes = std::min(token.end - at_, most_token_bytes);
    queue_.push({token.id, bytes});
    at_ += bytes;
  }
  // The bytes that belong to tokens.
  std::int64_t at() const { return at_; }
  bool finish() {
    queue_.skip(text_bytes_ - at_);
    return queue_.finish();
  }

 private:
  TokenQueue queue_;
  std::int64_t text_bytes_;
  std::int64_t at_ = 0;
};

// Some megabytes in memory, on all cores.
void encode_by_parts(const MappedFile& text,
                     const JsonTokenizer& model,
                     DocumentQueue& queue,
                     const ScanListener& heard) {
  TextPartReader reader(text, [&model](std::string_view of, std::size_t least) {
    return model.place_to_cut(of, least);
  });
  while (reader.next()) {
    const std::span<const TextPart> parts = reader.parts();
    std::vector<std::vector<JsonToken>> encoded(parts.size());
    in_parallel(parts.size(), [&](std::size_t i) {
      const auto keep = [&tokens = encoded[i]](const JsonToken& token) { tokens.push_back(token); };
      model.encode(parts[i].text, text.path(), keep, parts[i].begin);
    });
    for (const std::vector<JsonToken>& tokens : encoded)
      for (const JsonToken& token : tokens) queue.push(token);
    if (heard) heard({text.path(), reader.at(), text.size()});
  }
}

void encode_whole(const MappedFile& text,
                  const JsonTokenizer& model,
                  DocumentQueue& queue,
                  const ScanListener& heard) {
  std::string whole(static_cast<std::size_t>(text.size()), '\0');
  text.copy(0, whole);
  constexpr std::int64_t between_reports = 1 << 16;
  std::int64_t told = 0;
  model.encode(whole, text.path(), [&](const JsonToken& token) {
    queue.push(token);
    if (!heard || queue.at() - told < between_reports) return;
    told = queue.at();
    heard({text.path(), told, text.size()});
  });
}

void write_tokens(const MappedFile& text,
                  const JsonTokenizer& model,
                  const fs::path& path,
                  const TokenFileKey& key,
                  const ScanListener& heard) {
  TokenFileWriter writer(path, key);
  DocumentQueue queue(writer, text.size());
  if (model.goes_by_parts())
    encode_by_parts(text, model, queue, heard);
  else
    encode_whole(text, model, queue, heard);
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

fs::path token_path(const MappedFile& text,
                    const Tokenizer& tokenizer,
                    const TokenFileKey& key,
                    const fs::path& directory) {
  std::string settings =
      fmt::format("1 {} {:x} {:x} {}", longest_line_piece, key.text, key.tokenizer, key.text_bytes);
  // What was made by another way of reading the same tokenizer is another file.
  if (tokenizer.json_tokenizer() != nullptr) settings += " " + JsonTokenizer::version();
  return directory /
         fmt::format("{}-{:016x}.tokens", fs::path(text.path()).stem().string(), hash_of(settings));
}

// The texts that a run trains its tokenizer on.
struct TrainingTexts {
  explicit TrainingTexts(const DataOptions& options) : text(options.train) {
    if (!options.train_target.empty()) all.push_back(&target.emplace(options.train_target));
  }
  TrainingTexts(const TrainingTexts&) = delete;
  TrainingTexts& operator=(const TrainingTexts&) = delete;

  MappedFile text;
  std::optional<MappedFile> target;
  std::vector<const MappedFile*> all = {&text};
};

// The file of the run that a tokenizer of these texts and settings is kept in.
fs::path trained_path(const TrainingTexts& texts,
                      const DataOptions& options,
                      const fs::path& directory,
                      const char* extension,
                      const ScanListener& heard) {
  std::string key = "1";
  for (const MappedFile* file : texts.all)
    key += fmt::format(" {:x} {}", hash_of_text(*file, heard), file->size());
  const std::uint64_t hash =
      hash_of(fmt::format("{} {} {}", key, name_of(options.tokenizer_kind), options.vocabulary));
  return directory / fmt::format("tokenizer-{:016x}.{}", hash, extension);
}

SubwordModel trained_model(const DataOptions& options,
                           const fs::path& directory,
                           const ScanListener& heard) {
  const TrainingTexts texts(options);
  const fs::path path = trained_path(texts, options, directory, "model", heard);
  std::error_code unused;
  if (fs::exists(path, unused)) return read_subword_model(path.string());
  SubwordModel model = train_subwords(texts.all, options.tokenizer_kind, options.vocabulary, heard);
  write_subword_model(model, path.string());
  return model;
}

JsonTokenizer trained_json(const DataOptions& options,
                           const fs::path& directory,
                           const ScanListener& heard) {
  const TrainingTexts texts(options);
  const fs::path path = trained_path(texts, options, directory, "json", heard);
  std::error_code unused;
  if (fs::exists(path, unused)) return read_json_tokenizer(path.string());
  TokenizerRules rules =
      usual_rules(options.tokenizer_kind == SubwordKind::word_pieces ? TrainedKind::word_pieces
                                                                     : TrainedKind::byte_pairs);
  rules.vocabulary = options.vocabulary;
  JsonTokenizer tokenizer = train_json_tokenizer(texts.all, rules, heard);
  write_json_tokenizer(tokenizer, path.string());
  return tokenizer;
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
  const bool is_json = options.tokenizer == TokenizerKind::tokenizer_json;
  if (!is_json && options.tokenizer != TokenizerKind::sentencepiece)
    return make_tokenizer(options, listener);
  const bool trains = trains_tokenizer(options);
  const NamedPath& source = trains ? options.train : options.tokenizer_model;
  const std::int64_t size = trains ? MappedFile(source).size() : 0;
  const ScanListener& who = trains ? listener : ScanListener();
  if (is_json) {
    // Rank 0 reads it once.
    const auto first = std::make_shared<std::optional<JsonTokenizer>>();
    const std::string json = on_first_rank(
        all, source, size, who, [options, run_directory, trains, first](const ScanListener& heard) {
          first->emplace(trains ? trained_json(options, run_directory, heard)
                                : read_json_tokenizer(options.tokenizer_model));
          return (*first)->json();
        });
    return Tokenizer::of_package(*first ? **first : JsonTokenizer(json, source.told()));
  }
  const std::string bytes = on_first_rank(
      all, source, size, who, [options, run_directory, trains](const ScanListener& heard) {
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
    Corpus corpus(std::move(text), tokenizer, listener);
    require_same_corpus(corpus, all);
    return corpus;
  }
  TokenFileKey key = {.tokenizer = tokenizer.fingerprint(),
                      .text_bytes = text->size(),
                      .vocabulary = tokenizer.vocabulary()};
  const auto provide = [text, tokens, tokenizer](const TokenFileKey& of,
                                                 const ScanListener& heard) {
    const fs::path file = token_path(*text, tokenizer, of, tokens);
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
      text, tokenizer, std::make_shared<const TokenFile>(provide(key, listener), key));
  require_same_corpus(corpus, all);
  return corpus;
}

}  // namespace longspan
