#include "framework/data/tokenization/tokenizer_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
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

namespace {

constexpr std::int64_t sample_parts = 1024;
constexpr std::size_t max_sentence_length = 4096;  // bytes; SentencePiece skips longer ones

// Returns a line start near `offset`, or a character boundary in text without lines.
std::int64_t line_near(const InputFile& file, std::int64_t offset) {
  if (offset == 0) return 0;
  std::string bytes(
      static_cast<std::size_t>(std::min<std::int64_t>(max_sentence_length, file.size() - offset)),
      '\0');
  file.copy(offset, bytes);
  if (const std::size_t end = bytes.find('\n'); end != std::string::npos)
    return offset + static_cast<std::int64_t>(end) + 1;
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  return offset + (std::ranges::find_if(bytes, begins) - bytes.begin());
}

// Iterates over the lines of all texts, or of their samples.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  Sentences(std::span<const InputFile* const> files,
            const ProgressCallback& listener,
            std::int64_t sample_bytes)
      : files_(files),
        listener_(listener),
        sample_bytes_(sample_bytes / static_cast<std::int64_t>(files.size())) {
    begin_part();
    Next();
  }

  bool done() const override { return file_ == files_.size(); }
  void Next() override {
    while (!done()) {
      while (next_ < reader_->pieces().size()) {
        value_ = reader_->pieces()[next_++].text;
        if (!value_.empty()) return;
      }
      next_ = 0;
      const bool there_is_more = reader_->next();
      if (listener_) listener_({file().path(), reader_->at(), file().size()});
      if (there_is_more) continue;
      if (++part_ == parts()) {
        part_ = 0;
        ++file_;
      }
      begin_part();
    }
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const InputFile& file() const { return *files_[file_]; }
  std::int64_t parts() const { return file().size() > sample_bytes_ ? sample_parts : 1; }
  void begin_part() {
    if (done()) return;
    const std::int64_t begin = file().size() / parts() * part_;
    const std::int64_t end = parts() == 1 ? file().size() : begin + sample_bytes_ / parts();
    const std::int64_t line = line_near(file(), begin);
    reader_.emplace(file(), line, std::max(line, end), max_sentence_length);
  }

  std::span<const InputFile* const> files_;
  const ProgressCallback& listener_;
  std::int64_t sample_bytes_;  // per file
  std::size_t file_ = 0;
  std::int64_t part_ = 0;
  std::optional<LineReader> reader_;
  std::size_t next_ = 0;
  std::string value_;
};

// Returns the number after `words` in a library message; -1 if absent.
std::int64_t number_after(std::string_view sentence, std::string_view words) {
  const std::size_t at = sentence.find(words);
  if (at == std::string_view::npos) return -1;
  std::int64_t number = -1;
  std::from_chars(sentence.data() + at + words.size(), sentence.data() + sentence.size(), number);
  return number;
}

[[noreturn]] void refuse(const std::string& texts,
                         SentencePieceModelType kind,
                         std::int64_t vocabulary,
                         std::string_view key,
                         const std::string& sentence) {
  if (const std::int64_t most = number_after(sentence, "value <= "); most >= 0)
    throw DataError(
        "{}: a vocabulary of {} is too large: model_type {} yields {} pieces; set {} to at most {}",
        texts,
        vocabulary,
        name_of(kind),
        most,
        key,
        most);
  if (const std::int64_t least = number_after(sentence, " vs "); least >= 0)
    throw DataError(
        "{}: a vocabulary of {} is too small: its characters and the 256 bytes require {}; set {} "
        "to at least {}",
        texts,
        vocabulary,
        least,
        key,
        least);
  throw DataError("{}: cannot train a vocabulary of {} as {} (SentencePiece: {})",
                  texts,
                  vocabulary,
                  name_of(kind),
                  sentence);
}

}  // namespace

SentencePieceModel train_sentencepiece(std::span<const InputFile* const> texts,
                                       SentencePieceModelType kind,
                                       std::int64_t vocabulary,
                                       const ProgressCallback& listener,
                                       std::int64_t sample_bytes,
                                       std::string_view key) {
  require(vocabulary >= min_subword_vocabulary && vocabulary <= max_subword_vocabulary,
          "invalid vocabulary of {} subwords",
          vocabulary);
  require(kind != SentencePieceModelType::word_pieces, "SentencePiece does not support WordPiece");
  std::string places;
  for (const InputFile* text : texts) places += (places.empty() ? "" : " and ") + text->path();
  Sentences sentences(texts, listener, sample_bytes);
  if (sentences.done()) throw DataError("{}: has only empty lines", places);
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", std::string(name_of(kind))},
       {"vocab_size", std::to_string(vocabulary)},
       // Makes decoding lossless.
       {"byte_fallback", "true"},
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       // Each thread sums separately, so that the result depends on the number of threads.
       {"num_threads", "16"},
       {"max_sentence_length", std::to_string(max_sentence_length)},
       {"minloglevel", "2"}},
      &sentences,
      &bytes);
  if (!status.ok()) refuse(places, kind, vocabulary, key, status.ToString());
  return SentencePieceModel(std::move(bytes), places);
}

}  // namespace longspan
