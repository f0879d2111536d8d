#include "framework/data/tokenization/file_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// A longer document is encoded alone and its tokens are written directly.
constexpr std::size_t max_gathered_length = std::size_t{1} << 23;
constexpr std::int64_t tokens_at_once = 65536;

DocumentReaderOptions reading_of(const Tokenizer& tokenizer) {
  if (tokenizer.kind() == TokenizerKind::bytes) return {.parts = DocumentParts::bytes};
  if (const SentencePieceModel* const pieces = tokenizer.subword_model();
      pieces != nullptr && !pieces->encodes_lines()) {
    if (!pieces->supports_chunking()) return {.parts = DocumentParts::none};
    return {
        .parts = DocumentParts::places,
        .cut_position = [pieces](std::string_view text,
                                 std::size_t least) { return pieces->chunk_boundary(text, least); },
        .most = SentencePieceModel::max_part_bytes};
  }
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return {.parts = DocumentParts::lines};
  // Other models require the complete text.
  if (!model->supports_chunking()) return {.parts = DocumentParts::none};
  return {.parts = DocumentParts::places,
          .cut_position = [model](std::string_view text, std::size_t least) {
            return model->chunk_boundary(text, least);
          }};
}

}  // namespace

void remove_parts_of(const fs::path& tokens) {
  const std::string name = tokens.filename().string();
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator entry(tokens.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    if (found.starts_with(name + ".part-") || found.starts_with(name + ".tmp-"))
      left.push_back(entry->path());
  }
  for (const fs::path& path : left) fs::remove(path, error);
}

FileTokenizer::FileTokenizer(std::shared_ptr<const InputFile> text,
                             const DocumentFormat& form,
                             const Tokenizer& tokenizer,
                             fs::path path,
                             const TokenFileKey& key,
                             const ProgressCallback& heard,
                             const TokenizationOptions& making)
    : text_(std::move(text)),
      tokenizer_(tokenizer),
      path_(std::move(path)),
      key_(key),
      on_progress_(heard),
      making_(making),
      end_of_text_(end_of_text_id(*text_, form, tokenizer)),
      reader_(text_, form, reading_of(tokenizer)) {}

FileTokenizer::~FileTokenizer() {
  if (later_.valid()) later_.wait();  // uses the reader
}

std::int64_t FileTokenizer::run() try {
  const std::int64_t kept = find_parts();
  make_parts();
  finish();
  remove_parts_of(path_);
  return kept;
} catch (const Error&) {
  // A concurrent writer of an equal file removes the parts when it finishes.
  if (!path_exists(path_)) throw;
  return 0;
}

fs::path FileTokenizer::part_path(std::size_t part) const {
  return fmt::format("{}.part-{}", path_.string(), part);
}

// Finds parts of an earlier run.
std::int64_t FileTokenizer::find_parts() {
  for (; path_exists(part_path(parts_)); ++parts_) {
    try {
      const TokenFile part(part_path(parts_), key_);
      if (part.end().source_begin != place_.byte) break;
      place_ = {part.end().source_bytes, part.end().source_lines};
      has_tokens_ = has_tokens_ || part.tokens() > 0;
    } catch (const DataError&) {
      break;  // corrupt: rewritten
    }
  }
  if (parts_ > 0) reader_.skip_to(place_);
  return place_.byte;
}

void FileTokenizer::make_parts() {
  batch_.num_skipped = reader_.num_skipped();
  later_ = std::async(std::launch::async, [this] { return read_batch(); });
  consume_batch();
  while (!batch_.documents.empty()) {
    write_part();
    if (path_exists(path_)) return;  // by another process
  }
}

// Reads the next batch while the previous one is encoded.
void FileTokenizer::consume_batch() {
  batch_ = later_.get();
  if (!batch_.documents.empty())
    later_ = std::async(std::launch::async, [this] { return read_batch(); });
}

FileTokenizer::Batch FileTokenizer::read_batch() {
  Batch batch;
  for (Document document; batch.bytes < making_.batch && reader_.next(document);) {
    batch.bytes += std::ssize(document.text);
    batch.documents.push_back(std::move(document));
  }
  batch.place = reader_.place();
  batch.num_skipped = reader_.num_skipped();
  batch.at = reader_.at();
  return batch;
}

void FileTokenizer::write_part() {
  TokenFileWriter writer(part_path(parts_), key_);
  DocumentEncoder queue(
      writer, end_of_text_, batch_.documents.front().is_continuation, has_tokens_);
  TokenFileEnd end{.source_begin = place_.byte};
  std::int64_t bytes = 0;
  const std::int64_t left_out = left_out_;
  while (!batch_.documents.empty() && bytes < making_.part) {
    Batch batch = std::move(batch_);
    consume_batch();
    encode(batch, queue);
    bytes += batch.bytes;
    place_ = batch.place;
    left_out_ = batch_.documents.empty() ? batch_.num_skipped : batch.num_skipped;
    if (on_progress_) on_progress_({text_->path(), batch.at, text_->size()});
  }
  if (!batch_.documents.empty() && batch_.documents.front().is_continuation)
    queue.flush();
  else
    queue.end();
  end.num_skipped = left_out_ - left_out + queue.num_skipped();
  end.source_bytes = place_.byte;
  end.source_lines = place_.lines;
  has_tokens_ = has_tokens_ || writer.tokens() > 0;
  writer.finish(end);
  ++parts_;
}

void FileTokenizer::encode(Batch& batch, DocumentEncoder& queue) {
  std::vector<Document>& documents = batch.documents;
  std::vector<Tokens> tokens(documents.size());
  const auto is_gathered = [](const Document& document) {
    return document.text.size() <= max_gathered_length;
  };
  parallel_for(
      documents.size(),
      [&](std::size_t i) {
        reader_.extract_text(documents[i]);
        if (!is_gathered(documents[i])) return;
        encode_document(tokenizer_,
                        documents[i].text,
                        reader_.location_of(documents[i]),
                        reader_.offset_of(documents[i]),
                        documents[i].is_continuation,
                        [&tokens, i](const SubwordToken& token) { tokens[i].push_back(token); });
      },
      1);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!documents[i].is_continuation) queue.begin();
    if (!is_gathered(documents[i])) encode_directly(documents[i], queue);
    for (const SubwordToken& token : tokens[i]) queue.push(token);
  }
}

void FileTokenizer::encode_directly(const Document& document, DocumentEncoder& queue) const {
  std::int64_t count = 0;
  encode_document(tokenizer_,
                  document.text,
                  reader_.location_of(document),
                  reader_.offset_of(document),
                  document.is_continuation,
                  [&](const SubwordToken& token) {
                    queue.push(token);
                    if (on_progress_ && ++count % tokens_at_once == 0)
                      on_progress_({text_->path(), batch_.at, text_->size()});
                  });
}

void FileTokenizer::finish() {
  if (path_exists(path_)) return;
  if (!has_tokens_) {
    remove_parts_of(path_);
    throw DataError("{}: expected tokens, found none after tokenization", text_->path());
  }
  if (parts_ > 1) return join_parts();
  require_next(TokenFile(part_path(0), key_), 0, true);
  std::error_code error;
  fs::rename(part_path(0), path_, error);
  if (error) throw Failure("{}: cannot be written: {}", path_.string(), error.message());
}

// A concurrent writer with another part size may have replaced a part.
void FileTokenizer::require_next(const TokenFile& part, std::int64_t begin, bool is_last) const {
  if (part.end().source_begin == begin && (!is_last || part.end().source_bytes == place_.byte))
    return;
  throw Failure(
      "{}: another job with a different part length changed its parts; run the command again",
      path_.string());
}

void FileTokenizer::join_parts() const {
  TokenFileWriter writer(path_, key_);
  TokenFileEnd end;
  for (std::size_t i = 0; i < parts_; ++i) {
    const TokenFile part(part_path(i), key_);
    require_next(part, end.source_bytes, i + 1 == parts_);
    append(part, writer);
    end.num_skipped += part.end().num_skipped;
    end.source_bytes = part.end().source_bytes;
    end.source_lines = part.end().source_lines;
  }
  writer.finish(end);
}

void FileTokenizer::append(const TokenFile& part, TokenFileWriter& writer) const {
  std::vector<SubwordToken> tokens;
  std::int64_t document = 0;
  std::int64_t begin = part.document_begin(0);
  for (std::int64_t at = 0; at < part.tokens(); at += std::ssize(tokens)) {
    tokens.resize(static_cast<std::size_t>(std::min(tokens_at_once, part.tokens() - at)));
    part.read_tokens(at, tokens);
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
      if (document < part.documents() && begin == at + i) {
        writer.begin_document();
        begin = part.document_begin(++document);
      }
      writer.add(tokens[static_cast<std::size_t>(i)]);
    }
    if (on_progress_) on_progress_({text_->path(), text_->size(), text_->size()});
  }
}

}  // namespace longspan
