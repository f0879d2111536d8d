#include "framework/data/corpus/document_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

DocumentReader::DocumentReader(std::shared_ptr<const InputFile> file,
                               const DocumentFormat& form,
                               const DocumentReaderOptions& reading)
    : file_(std::move(file), reading.block),
      form_(form),
      reading_(reading),
      is_json_(is_json_lines(file_.file(), form)) {
  require(reading.part > max_line_piece_length + 1, "invalid part size: {} bytes", reading.part);
}

bool DocumentReader::next(Document& document) {
  document = {};
  while (true) {
    bool is_found = false;
    if (is_json_ || form_.boundary == DocumentBoundary::line)
      is_found = next_line(document);
    else if (form_.boundary == DocumentBoundary::paragraph)
      is_found = next_paragraph(document);
    else
      is_found = next_of_file(document);
    if (!is_found) return false;
    if (!(is_json_ ? is_blank(document.text) : document.text.empty())) break;
    if (!is_json_) ++left_out_;
  }
  place_ = at_;
  return true;
}

void DocumentReader::skip_to(const FilePosition& place) {
  require(
      at_.byte == 0 && buffer_.empty(), "{}: cannot skip after reading has started", file_.path());
  file_.skip(place.byte);
  at_ = place_ = place;
  is_started_ = place.byte > 0;
}

bool DocumentReader::fill() {
  if (is_ended_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + reading_.block);
  const std::size_t read = file_.read(std::span(buffer_).subspan(before));
  buffer_.resize(before + read);
  is_ended_ = read < reading_.block;
  return read > 0;
}

void DocumentReader::use(std::size_t bytes, std::int64_t lines) {
  begin_ += bytes;
  valid_ -= std::min(valid_, bytes);
  at_.byte += static_cast<std::int64_t>(bytes);
  at_.lines += lines;
}

void DocumentReader::throw_too_long(std::int64_t begin) const {
  const bool is_whole_file = !is_json_ && (form_.boundary == DocumentBoundary::none ||
                                           form_.boundary == DocumentBoundary::file);
  throw DataError("{}: a {} of more than {} bytes begins at byte {}{}",
                  file_.path(),
                  is_whole_file                                           ? "document"
                  : !is_json_ && form_.boundary != DocumentBoundary::line ? "paragraph"
                                                                          : "line",
                  reading_.longest,
                  begin,
                  is_whole_file ? "; set data.documents.sample_by to line or paragraph"
                                : "; split it into shorter documents");
}

// Reads a line including its end; returns false at the end of the file. The view is valid until the
// next read. `begin`: start of the containing document.
bool DocumentReader::read_line(std::string_view& line, std::int64_t begin) {
  for (std::size_t look = 0;;) {
    const std::size_t end = held().find('\n', look);
    if (end != std::string_view::npos || is_ended_) {
      line = held().substr(0, end == std::string_view::npos ? end : end + 1);
      if (line.size() > reading_.longest) throw_too_long(begin);
      return !line.empty();
    }
    look = held().size();
    if (look > reading_.longest) throw_too_long(begin);
    fill();
  }
}

bool DocumentReader::next_line(Document& document) {
  std::string_view line;
  if (!read_line(line, at_.byte)) return false;
  document.line = at_.lines + 1;
  document.byte = at_.byte;
  document.text = without_line_end(line);
  use(line.size(), 1);
  return true;
}

bool DocumentReader::next_paragraph(Document& document) {
  std::string_view line;
  std::int64_t lines = 0;
  while (read_line(line, lines > 0 ? document.byte : at_.byte)) {
    if (is_blank(line)) {
      use(line.size(), 1);
      if (lines > 0) break;
      continue;
    }
    if (lines++ == 0) {
      document.line = at_.lines + 1;
      document.byte = at_.byte;
    }
    if (document.text.size() + line.size() > reading_.longest) throw_too_long(document.byte);
    document.text += line;
    use(line.size(), 1);
  }
  document.text.resize(without_line_end(document.text).size());
  return lines > 0;
}

// Returns the text of one part; empty at the end.
std::string_view DocumentReader::part_to_place() {
  for (std::size_t least = reading_.part;;) {
    const std::string_view text = held();
    valid_ += valid_utf8_bytes(text.substr(valid_));
    // The encoder reports the invalid text.
    if (valid_ + 4 < text.size()) return text;
    if (valid_ > least) {
      const std::size_t end = reading_.cut_position(text.substr(0, valid_), least);
      if (end != std::string_view::npos) return text.substr(0, end);
      least = valid_;
    }
    if (reading_.most && valid_ > *reading_.most)
      return text.substr(0, cut_of(text, *reading_.most));
    if (is_ended_) return text;
    if (text.size() > reading_.longest) throw_too_long(at_.byte);
    fill();
  }
}

bool DocumentReader::next_of_file(Document& document) {
  const bool is_whole_file = reading_.parts == DocumentParts::none;
  const bool by_places = reading_.parts == DocumentParts::places;
  while (!is_ended_ && !by_places && (is_whole_file || held().size() < reading_.part)) {
    if (held().size() > reading_.longest) throw_too_long(at_.byte);
    fill();
  }
  if (is_whole_file && held().size() > reading_.longest) throw_too_long(at_.byte);
  std::string_view part = by_places ? part_to_place() : held();
  if (part.empty()) return false;
  if (reading_.parts == DocumentParts::lines) {
    const bool is_last = is_ended_ && part.size() <= reading_.part;
    if (!is_last) part = part.substr(0, reading_.part);
    const std::size_t valid =
        for_each_character(part, at_.byte, is_last, file_.path(), [](char32_t, std::int64_t) {});
    std::size_t used = 0;
    split_lines(part.substr(0, valid), is_last, used);
    part = part.substr(0, used);
  } else if (reading_.parts == DocumentParts::bytes) {
    part = part.substr(0, reading_.part);
  }
  document.line = at_.lines + 1;
  document.byte = at_.byte;
  document.is_continuation = is_started_;
  document.text = part;
  is_started_ = true;
  use(part.size(), std::ranges::count(part, '\n'));
  return true;
}

void DocumentReader::extract_text(Document& document) const {
  if (!is_json_) return;
  // The parser accepts surrounding blanks and a byte order mark.
  document.text = json_field(document.text, form_.text_field(), location_of(document));
}

std::string DocumentReader::location_of(const Document& document) const {
  if (is_json_) return line_location(file_.path(), document.line);
  return file_.is_compressed() ? file_.path() + ", decompressed" : file_.path();
}

std::int64_t DocumentReader::offset_of(const Document& document) const {
  return is_json_ ? 0 : document.byte;
}

}  // namespace longspan
