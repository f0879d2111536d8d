#include "framework/data/text_files.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "framework/core/error.h"
#include "framework/data/document_text.h"
#include "framework/data/document_tokens.h"
#include "framework/data/file_hash.h"
#include "framework/data/first_rank.h"
#include "framework/data/path_pattern.h"
#include "framework/data/subword_training.h"
#include "framework/data/tokenizer_file.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

std::int64_t size_of(const std::vector<NamedPath>& files) {
  std::int64_t size = 0;
  for (const NamedPath& file : files) size += MappedFile(file).size();
  return size;
}

// Of a text that SentencePiece does not read as it is.
SubwordModel trained_on_documents(const std::shared_ptr<const MappedFile>& text,
                                  const DataOptions& options,
                                  const fs::path& directory,
                                  const ScanListener& heard) {
  const DocumentSample sample(text, options.documents, subword_sample_bytes, directory, heard);
  const MappedFile lines(sample.path().string());
  try {
    return train_subwords(lines, options.tokenizer_kind, options.vocabulary);
  } catch (const DataError& error) {
    // The sample is no file that anyone knows.
    const std::string_view sentence = error.what();
    if (!sentence.starts_with(lines.path())) throw;
    throw DataError("{}{}", text->path(), sentence.substr(lines.path().size()));
  }
}

SubwordModel trained_model(const DataOptions& options,
                           const fs::path& directory,
                           const ScanListener& heard) {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const NamedPath& path : files_of(options.train))
    files.push_back(std::make_shared<const MappedFile>(path));
  const std::shared_ptr<const MappedFile>& text = files.front();
  std::optional<MappedFile> target;
  std::vector<const MappedFile*> texts;
  for (const auto& file : files) texts.push_back(file.get());
  if (!options.train_target.empty()) texts.push_back(&target.emplace(options.train_target));
  std::string key = "1";
  for (const MappedFile* file : texts)
    key += fmt::format(" {:x} {}", hash_of_file(*file, heard), file->size());
  if (is_json_lines(text->path())) key += " " + options.documents.field;
  const std::uint64_t hash =
      hash_of(fmt::format("{} {} {}", key, name_of(options.tokenizer_kind), options.vocabulary));
  const fs::path path = directory / fmt::format("tokenizer-{:016x}.model", hash);
  std::error_code unused;
  if (fs::exists(path, unused)) return read_subword_model(path.string());
  const bool are_plain =
      std::ranges::all_of(files, [](const auto& file) { return is_plain_text(*file); });
  if (!are_plain && files.size() > 1)
    throw DataError(
        "{}: a model of subwords is trained on several files only where all are plain text; "
        "data.tokenizer_model names one that is there already",
        options.train.told());
  const SubwordModel model =
      are_plain ? train_subwords(texts, options.tokenizer_kind, options.vocabulary, heard)
                : trained_on_documents(text, options, directory, heard);
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
  const NamedPath& source =
      trains ? static_cast<const NamedPath&>(options.train) : options.tokenizer_model;
  const std::string bytes =
      on_first_rank(all,
                    source,
                    trains ? size_of(files_of(options.train, all)) : 0,
                    trains ? listener : ScanListener(),
                    [options, run_directory, trains](const ScanListener& heard) {
                      return (trains ? trained_model(options, run_directory, heard)
                                     : read_subword_model(options.tokenizer_model))
                          .bytes();
                    });
  return Tokenizer::subwords(SubwordModel(bytes, source.told()));
}

CorpusFile open_corpus_file(const NamedPath& path,
                            const DataOptions& options,
                            const Tokenizer& tokenizer,
                            const fs::path& run_directory,
                            const Communicator& all,
                            const ScanListener& listener) {
  auto file = std::make_shared<const MappedFile>(path);
  if (options.format == DataFormat::tokens)
    return {IdFile(std::move(file), tokenizer.vocabulary(), options.token_bits), tokenizer};
  if (!needs_token_file(*file, options.documents, tokenizer))
    return {std::move(file), tokenizer, listener};
  auto encoded = tokens_of_documents(
      path, options.documents, tokenizer, token_directory(options, run_directory), all, listener);
  return {std::move(file), tokenizer, std::move(encoded)};
}

Corpus open_corpus(const PathList& paths,
                   const DataOptions& options,
                   const Tokenizer& tokenizer,
                   const fs::path& run_directory,
                   const Communicator& all,
                   const ScanListener& listener) {
  std::vector<CorpusFile> files;
  for (const NamedPath& path : files_of(paths, all))
    files.push_back(open_corpus_file(path, options, tokenizer, run_directory, all, listener));
  const Corpus corpus(paths.text(), std::move(files));
  require_same_corpus(corpus, all);
  return corpus;
}

}  // namespace longspan
