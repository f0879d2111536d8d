#include "framework/data/tokenization/tokenizer_training.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/data/corpus/document_reader.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/tokenizers/chunk_boundaries.h"

namespace longspan {
namespace {

constexpr std::size_t max_bytes_of_a_part = std::size_t{1} << 24;
constexpr std::size_t bytes_learnt_at_once = std::size_t{1} << 22;

// Returns documents, or parts of one, of some megabytes; empty at the end.
std::vector<Document> next_documents(DocumentReader& reader) {
  std::vector<Document> documents;
  std::size_t bytes = 0;
  for (Document document; bytes < bytes_learnt_at_once && reader.next(document);) {
    bytes += document.text.size();
    documents.push_back(std::move(document));
  }
  return documents;
}

// Splits long fields of .jsonl lines.
WordCounts count_in_parts(const TokenizerTrainer& trainer, std::string_view text) {
  WordCounts words;
  while (text.size() > max_bytes_of_a_part) {
    const std::size_t end = blank_to_cut_at(text, max_bytes_of_a_part);
    words.add(trainer.count(text.substr(0, end)));
    text.remove_prefix(std::min(end, text.size()));
  }
  words.add(trainer.count(text));
  return words;
}

void count_words(std::shared_ptr<const InputFile> text,
                 const DocumentFormat& form,
                 const TokenizerTrainer& trainer,
                 const ProgressCallback& listener,
                 WordCounts& words) {
  const std::int64_t size = text->size();
  const std::string path = text->path();
  const DocumentReaderOptions reading = {
      .parts = DocumentParts::places, .cut_position = blank_to_cut_at, .most = max_bytes_of_a_part};
  DocumentReader reader(std::move(text), form, reading);
  while (true) {
    std::vector<Document> documents = next_documents(reader);
    if (documents.empty()) return;
    std::vector<WordCounts> counts(documents.size());
    const auto count = [&](std::size_t i) {
      Document& document = documents[i];
      reader.extract_text(document);
      for_each_character(document.text,
                         reader.offset_of(document),
                         true,
                         reader.location_of(document),
                         [](char32_t, std::int64_t) {});
      counts[i] = count_in_parts(trainer, document.text);
    };
    parallel_for(documents.size(), count, 1);
    for (const WordCounts& of_document : counts) words.add(of_document);
    if (listener) listener({path, reader.at(), size});
  }
}

}  // namespace

JsonTokenizer train_json_tokenizer(std::span<const std::shared_ptr<const InputFile>> texts,
                                   const std::optional<std::string>& field,
                                   const TokenizerRules& rules,
                                   const ProgressCallback& listener) {
  const TokenizerTrainer trainer(rules);
  const DocumentFormat form = {.field = field};
  WordCounts words;
  std::string places;
  for (const auto& text : texts) {
    places += (places.empty() ? "" : " and ") + text->path();
    count_words(text, form, trainer, listener, words);
  }
  const auto still_requested = [&](std::int64_t) {
    const InputFile& last = *texts.back();
    if (listener) listener({last.path(), last.size(), last.size()});
  };
  return JsonTokenizer(trainer.train(words, places, still_requested), places);
}

}  // namespace longspan
