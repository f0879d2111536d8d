#include "framework/data/text_files.h"

#include <xxhash.h>

#include <optional>
#include <system_error>

#include "framework/core/error.h"
#include "framework/data/document_text.h"
#include "framework/data/document_tokens.h"
#include "framework/data/file_hash.h"
#include "framework/data/first_rank.h"
#include "framework/data/subword_training.h"
#include "framework/data/tokenizer_file.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

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
  const auto text = std::make_shared<const MappedFile>(options.train);
  std::optional<MappedFile> target;
  std::vector<const MappedFile*> texts = {text.get()};
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
  const SubwordModel model =
      is_plain_text(*text)
          ? train_subwords(texts, options.tokenizer_kind, options.vocabulary, heard)
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
    Corpus corpus(std::move(text), tokenizer, listener);
    require_same_corpus(corpus, all);
    return corpus;
  }
  const Corpus corpus(
      text, tokenizer, tokens_of_documents(path, {}, tokenizer, tokens, all, listener));
  require_same_corpus(corpus, all);
  return corpus;
}

}  // namespace longspan
