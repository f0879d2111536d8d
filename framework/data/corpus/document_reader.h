// Sequential reader of the documents of one file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/corpus/document_form.h"

namespace longspan {

// Size limit of a document, in bytes.
inline constexpr std::size_t max_document_length = std::size_t{1} << 30;

struct Document {
  std::string text;              // for .jsonl the whole line, until `extract_text`
  std::int64_t line = 0;         // from 1, in the decompressed file
  std::int64_t byte = 0;         // offset in the decompressed file
  bool is_continuation = false;  // of the previous part of the same document
};

// How a file that is one document is returned in parts. none: whole. lines: cut as `split_lines`
// cuts, so that encoding the parts equals encoding the file line by line. places: cut at
// DocumentReaderOptions::cut_position. bytes: cut anywhere.
enum class DocumentParts : std::uint8_t { none, lines, places, bytes };

struct DocumentReaderOptions {
  DocumentParts parts = DocumentParts::none;
  std::size_t part = std::size_t{1} << 17;    // bytes; exceeds max_line_piece_length
  std::size_t longest = max_document_length;  // byte limit of one returned text
  // For `places`: returns the first cut position at byte `least` or later; npos if there is none.
  std::function<std::size_t(std::string_view text, std::size_t least)> cut_position = {};
  // For `places`: when this many bytes have no cut position, the part ends before their last space
  // or after a character. Unset: parts have no such limit.
  std::optional<std::size_t> most = std::nullopt;
  std::size_t block = std::size_t{1} << 20;  // bytes read at once
};

// A position between documents.
struct FilePosition {
  std::int64_t byte = 0;   // in the decompressed file
  std::int64_t lines = 0;  // before it
};

// Memory use depends only on the longest document, not on the file size. Documents without text
// (for .jsonl, blank lines) are skipped and counted.
class DocumentReader {
 public:
  // Throws DataError as DecompressedFile.
  DocumentReader(std::shared_ptr<const InputFile> file,
                 const DocumentFormat& form,
                 const DocumentReaderOptions& reading = {});

  // Reads the next document; returns false at the end. Throws DataError for corrupt compressed
  // data, for a document above the size limit, and for invalid UTF-8 in parts cut at lines.
  bool next(Document& document);
  // Returns the end of the last returned document. Reading can resume there.
  const FilePosition& place() const { return place_; }
  // Resumes at a position. Call it before the first `next`.
  void skip_to(const FilePosition& place);
  std::int64_t num_skipped() const { return left_out_; }
  // Bytes read of the file itself, before decompression.
  std::int64_t at() const { return file_.at(); }

  // For .jsonl, replaces the line by the text of its field. Throws DataError as json_field does.
  // Thread-safe.
  void extract_text(Document& document) const;
  // Returns the prefix of messages about a document, and the byte offset of that location.
  std::string location_of(const Document& document) const;
  std::int64_t offset_of(const Document& document) const;

 private:
  bool read_line(std::string_view& line, std::int64_t begin);
  bool next_line(Document& document);
  bool next_paragraph(Document& document);
  bool next_of_file(Document& document);
  std::string_view part_to_place();
  bool fill();
  void use(std::size_t bytes, std::int64_t lines);
  std::string_view held() const { return std::string_view(buffer_).substr(begin_); }
  [[noreturn]] void throw_too_long(std::int64_t begin) const;

  DecompressedFile file_;
  DocumentFormat form_;
  DocumentReaderOptions reading_;
  bool is_json_;
  std::string buffer_;  // read ahead; consumed up to begin_
  std::size_t begin_ = 0;
  std::size_t valid_ = 0;    // bytes of held() known to be complete characters
  bool is_ended_ = false;    // end of the file
  bool is_started_ = false;  // the first part of a whole file was returned
  FilePosition at_;          // of begin_
  FilePosition place_;
  std::int64_t left_out_ = 0;
};

}  // namespace longspan
