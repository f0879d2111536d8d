// The documents of one file, one after another.
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

// Of a document, in bytes.
inline constexpr std::size_t longest_document = std::size_t{1} << 30;

struct Document {
  std::string text;              // of .jsonl the whole line, until `take_text`
  std::int64_t line = 0;         // from 1, in the unpacked file
  std::int64_t byte = 0;         // of the unpacked file, at which it begins
  bool is_continuation = false;  // what the document before it began
};

// How a whole file, which is one document or none, is given in parts: not at all; cut where
// `split_lines` cuts, so that encoding the parts line by line is encoding the file so; where
// DocumentReaderOptions::place_to_cut says; or anywhere.
enum class DocumentParts : std::uint8_t { none, lines, places, bytes };

struct DocumentReaderOptions {
  DocumentParts parts = DocumentParts::none;
  std::size_t part = std::size_t{1} << 17;  // bytes; more than the longest piece of a line
  std::size_t longest = longest_document;   // bytes of what is given at once
  // With `places`: the first place at byte `least` of a text or later; npos where there is none.
  std::function<std::size_t(std::string_view text, std::size_t least)> place_to_cut = {};
  // With `places`: where so many bytes have no place, a part ends before their last space or behind
  // a character; none: the part is as long as it is.
  std::optional<std::size_t> most = std::nullopt;
  std::size_t block = std::size_t{1} << 20;  // bytes that are read at once
};

// A place between documents.
struct FilePosition {
  std::int64_t byte = 0;   // of the unpacked file
  std::int64_t lines = 0;  // before it
};

// What it holds does not grow with the file, beside the longest document. Documents without text
// are left out and counted; of .jsonl lines without anything.
class DocumentReader {
 public:
  // Throws DataError as DecompressedFile does.
  DocumentReader(std::shared_ptr<const InputFile> file,
                 const DocumentFormat& form,
                 const DocumentReaderOptions& reading = {});

  // False at the end. Throws DataError: what the packing is damaged by; a document that is longer
  // than the bound; with parts cut at lines where the text is not UTF-8.
  bool next(Document& document);
  // Where the document that was given last ends, and what follows may be read from.
  const FilePosition& place() const { return place_; }
  // Goes on there. To be called first.
  void skip_to(const FilePosition& place);
  std::int64_t num_skipped() const { return left_out_; }
  // Bytes of the file itself that have been read.
  std::int64_t at() const { return file_.at(); }

  // Of .jsonl the text of the field in place of the line. Throws DataError as json_field does.
  // Thread-safe.
  void take_text(Document& document) const;
  // What messages about a document begin with, and the byte of that place at which it begins.
  std::string place_of(const Document& document) const;
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
  [[noreturn]] void refuse_length(std::int64_t begin) const;

  DecompressedFile file_;
  DocumentFormat form_;
  DocumentReaderOptions reading_;
  bool is_json_;
  std::string buffer_;  // what was read, used up to begin_
  std::size_t begin_ = 0;
  std::size_t valid_ = 0;  // bytes of held() that are known to be whole characters
  bool is_ended_ = false;  // nothing can be read any more
  bool is_begun_ = false;  // a whole file's first part was given
  FilePosition at_;        // of begin_
  FilePosition place_;
  std::int64_t left_out_ = 0;
};

}  // namespace longspan
