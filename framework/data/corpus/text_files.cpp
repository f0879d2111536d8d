#include "framework/data/corpus/text_files.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/token_cache.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/data/tokenization/tokenizer_training.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of_key(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

std::int64_t size_of(const std::vector<ConfigPath>& files) {
  std::int64_t size = 0;
  for (const ConfigPath& file : files) size += InputFile(file).size();
  return size;
}

// Ids may begin with any bytes, so that only the file name indicates compression.
std::shared_ptr<const InputFile> open_ids(const ConfigPath& path) {
  const std::string name = lower_case(path);
  if (name.ends_with(".gz") || name.ends_with(".zst")) return open_decompressed(path);
  return std::make_shared<const InputFile>(path);
}

// Training texts of the tokenizer.
using TrainingTexts = std::vector<std::shared_ptr<const InputFile>>;

TrainingTexts training_texts(const DataOptions& options) {
  TrainingTexts texts;
  for (const ConfigPath& path : files_of(options.train)) texts.push_back(open_text(path));
  if (!options.train_target.empty()) texts.push_back(open_text(options.train_target));
  return texts;
}

// Returns the run's path for a tokenizer trained on these texts and settings.
fs::path trained_path(const TrainingTexts& texts,
                      const DataOptions& options,
                      const fs::path& directory,
                      const char* extension,
                      const ProgressCallback& heard) {
  std::string key = "1";
  for (const auto& file : texts)
    key += fmt::format(" {:x} {}", hash_of_file(*file, heard), file->size());
  const auto is_json = [&](const auto& file) { return is_json_lines(*file, options.documents); };
  if (std::ranges::any_of(texts, is_json)) key += " " + options.documents.text_field();
  const std::uint64_t hash = hash_of_key(
      fmt::format("{} {} {}", key, name_of(options.tokenizer_kind), options.vocabulary));
  return directory / fmt::format("tokenizer-{:016x}.{}", hash, extension);
}

SentencePieceModel trained_model(const DataOptions& options,
                                 const fs::path& directory,
                                 const ProgressCallback& heard) {
  const TrainingTexts texts = training_texts(options);
  const fs::path path = trained_path(texts, options, directory, "model", heard);
  if (path_exists(path)) return read_subword_model(path.string());
  const SentencePieceModel model = train_subwords_of_documents(
      texts, options.documents, options.tokenizer_kind, options.vocabulary, heard);
  write_subword_model(model, path.string());
  return model;
}

JsonTokenizer trained_json(const DataOptions& options,
                           const fs::path& directory,
                           const ProgressCallback& heard) {
  const TrainingTexts texts = training_texts(options);
  const fs::path path = trained_path(texts, options, directory, "json", heard);
  if (path_exists(path)) return read_json_tokenizer(path.string());
  TokenizerRules rules = usual_rules(options.tokenizer_kind == SentencePieceModelType::word_pieces
                                         ? TrainedKind::word_pieces
                                         : TrainedKind::byte_pairs);
  rules.vocabulary = options.vocabulary;
  const JsonTokenizer tokenizer =
      train_json_tokenizer(texts, options.documents.field, rules, heard);
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
                            const ProgressCallback& listener) {
  const bool is_json = options.tokenizer == TokenizerKind::tokenizer_json;
  if (options.saved_tokenizer) return make_tokenizer(options, listener);
  if (!is_json && options.tokenizer != TokenizerKind::sentencepiece)
    return make_tokenizer(options, listener);
  const bool trains = trains_tokenizer(options);
  const ConfigPath& source =
      trains ? static_cast<const ConfigPath&>(options.train) : options.tokenizer_model;
  const std::int64_t size = trains ? size_of(files_of(options.train, all)) : 0;
  const ProgressCallback& who = trains ? listener : ProgressCallback();
  if (is_json) {
    // Only rank 0 reads it.
    const auto first = std::make_shared<std::optional<JsonTokenizer>>();
    const std::string json =
        run_on_rank_zero(all,
                         source,
                         size,
                         who,
                         [options, run_directory, trains, first](const ProgressCallback& heard) {
                           first->emplace(trains ? trained_json(options, run_directory, heard)
                                                 : read_json_tokenizer(options.tokenizer_model));
                           return (*first)->json();
                         });
    return Tokenizer::from_huggingface(*first ? **first : JsonTokenizer(json, source.describe()));
  }
  const std::string bytes = run_on_rank_zero(
      all, source, size, who, [options, run_directory, trains](const ProgressCallback& heard) {
        return (trains ? trained_model(options, run_directory, heard)
                       : read_subword_model(options.tokenizer_model))
            .bytes();
      });
  return Tokenizer::subwords(SentencePieceModel(bytes, source.describe()));
}

CorpusFile open_corpus_file(const ConfigPath& path,
                            const DataOptions& options,
                            const Tokenizer& tokenizer,
                            const fs::path& run_directory,
                            const Communicator& all,
                            const ProgressCallback& listener) {
  if (options.format == DataFormat::tokens)
    return {TokenIdFile(open_ids(path), tokenizer.vocabulary(), options.token_bits), tokenizer};
  auto file = open_text(path);
  const bool has_any = has_documents(*file, options.documents);
  if (!needs_token_file(*file, options.documents, tokenizer))
    return {std::move(file), tokenizer, listener};
  auto encoded = tokens_of_documents(
      path, options.documents, tokenizer, token_directory(options, run_directory), all, listener);
  return {std::move(file), tokenizer, std::move(encoded), has_any};
}

std::vector<Corpus> open_each(const PathList& paths,
                              const DataOptions& options,
                              const Tokenizer& tokenizer,
                              const fs::path& run_directory,
                              const Communicator& all,
                              const ProgressCallback& listener) {
  std::vector<Corpus> corpora;
  for (const WeightedPath& part : paths.parts) {
    std::vector<CorpusFile> files;
    for (const ConfigPath& name : files_of(PathList(part.path), all, listener))
      files.push_back(open_corpus_file(name, options, tokenizer, run_directory, all, listener));
    require_same_corpus(corpora.emplace_back(part.path.text(), std::move(files)), all);
  }
  return corpora;
}

Corpus open_corpus(const PathList& paths,
                   const DataOptions& options,
                   const Tokenizer& tokenizer,
                   const fs::path& run_directory,
                   const Communicator& all,
                   const ProgressCallback& listener) {
  return joined(paths.text(), open_each(paths, options, tokenizer, run_directory, all, listener));
}

}  // namespace longspan
