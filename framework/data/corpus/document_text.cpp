#include "framework/data/corpus/document_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus/document_reader.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/data/tokenization/tokenizer_training.h"

namespace longspan {
namespace {

// Calls f(document) for each text. A file that is one document is visited in parts.
template <typename F>
void for_each_document(const std::shared_ptr<const InputFile>& file,
                       const DocumentFormat& form,
                       const ProgressCallback& listener,
                       F&& f) {
  DocumentReader reader(file, form, {.parts = DocumentParts::lines});
  std::int64_t told = 0;
  for (Document document; reader.next(document);) {
    reader.extract_text(document);
    f(reader, document);
    if (listener && reader.at() > told) {
      told = reader.at();
      listener({file->path(), told, file->size()});
    }
  }
}

// Keeps every n-th document, with n doubled whenever the size exceeds the limit.
class Sample {
 public:
  explicit Sample(std::int64_t most) : most_(most) {}

  void add(std::string text) {
    if (seen_++ % step_ != 0) return;
    bytes_ += std::ssize(text);
    texts_.push_back(std::move(text));
    while (bytes_ > most_ && texts_.size() > 1) thin();
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void thin() {
    step_ *= 2;
    bytes_ = 0;
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < texts_.size(); i += 2) {
      bytes_ += std::ssize(texts_[i]);
      kept.push_back(std::move(texts_[i]));
    }
    texts_ = std::move(kept);
  }

  std::int64_t most_;
  std::int64_t step_ = 1;
  std::int64_t seen_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace

bool is_plain_text(const InputFile& file, const DocumentFormat& form) {
  return detect_compression(file) == Compression::none && !is_json_lines(file, form);
}

Tokenizer characters_of_documents(std::shared_ptr<const InputFile> file,
                                  const DocumentFormat& form,
                                  bool with_unknown,
                                  const ProgressCallback& listener) {
  std::vector<bool> seen(static_cast<std::size_t>(max_code_point) + 1);
  for_each_document(
      file, form, listener, [&seen](const DocumentReader& reader, const Document& document) {
        for_each_character(document.text,
                           reader.offset_of(document),
                           true,
                           reader.location_of(document),
                           [&seen](char32_t letter, std::int64_t) { seen[letter] = true; });
      });
  std::vector<char32_t> found;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i]) found.push_back(static_cast<char32_t>(i));
  if (found.empty()) throw DataError("{}: has no text", file->path());
  return Tokenizer::characters(found, with_unknown);
}

std::shared_ptr<const InputFile> sample_of_documents(const std::shared_ptr<const InputFile>& file,
                                                     const DocumentFormat& form,
                                                     std::int64_t bytes,
                                                     const ProgressCallback& listener) {
  Sample sample(bytes);
  for_each_document(file, form, listener, [&sample](const DocumentReader&, Document& document) {
    sample.add(std::move(document.text));
  });
  if (sample.texts().empty()) throw DataError("{}: has no text", file->path());
  std::size_t text = 0;  // index of the text being copied
  std::size_t at = 0;    // bytes of it copied so far
  const auto read = [&](std::span<char> out) {
    std::size_t done = 0;
    while (done < out.size() && text < sample.texts().size()) {
      const std::string& from = sample.texts()[text];
      const std::size_t count = std::min(out.size() - done, from.size() - at);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at),
                  count,
                  out.begin() + static_cast<std::ptrdiff_t>(done));
      done += count;
      at += count;
      if (at < from.size() || done == out.size()) continue;
      if (!from.ends_with('\n')) out[done++] = '\n';
      ++text;
      at = 0;
    }
    return done;
  };
  return std::make_shared<const InputFile>(ConfigPath(file->path()), read);
}

SentencePieceModel train_subwords_of_documents(
    std::span<const std::shared_ptr<const InputFile>> texts,
    const DocumentFormat& form,
    SentencePieceModelType kind,
    std::int64_t vocabulary,
    const ProgressCallback& listener,
    std::string_view key) {
  const std::int64_t bytes = subword_sample_bytes / std::ssize(texts);
  std::vector<std::shared_ptr<const InputFile>> plain;
  std::vector<const InputFile*> files;
  for (const auto& text : texts) {
    plain.push_back(is_plain_text(*text, form) ? text
                                               : sample_of_documents(text, form, bytes, listener));
    files.push_back(plain.back().get());
  }
  return train_sentencepiece(files, kind, vocabulary, listener, subword_sample_bytes, key);
}

}  // namespace longspan
