#include "framework/data/corpus/line_chunks.h"

#include <algorithm>

#include "framework/core/input_file.h"
#include "framework/data/tokenization/character_scan.h"

namespace longspan {

namespace {

constexpr std::int64_t bytes_at_once = std::int64_t{1} << 22;

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::size_t cut_of(std::string_view text, std::size_t longest) {
  const std::size_t space = text.rfind(' ', longest);
  if (space != std::string_view::npos && space > 0) return space;
  std::size_t cut = longest;
  while (cut > 1 && !starts_character(text[cut])) --cut;
  return cut;
}

std::vector<LineChunk> split_lines(std::string_view text,
                                   bool last,
                                   std::size_t& used,
                                   std::size_t longest) {
  std::vector<LineChunk> pieces;
  used = 0;
  while (used < text.size()) {
    const std::string_view left = text.substr(used);
    // A line end directly after a chunk of maximum length is part of it.
    const std::size_t end = left.substr(0, longest + 1).find('\n');
    if (end != std::string_view::npos) {
      pieces.push_back({left.substr(0, end), true});
      used += end + 1;
    } else if (left.size() > longest) {
      const std::size_t cut = cut_of(left, longest);
      pieces.push_back({left.substr(0, cut), false});
      used += cut;
    } else if (last) {
      pieces.push_back({left, false});
      used = text.size();
    } else {
      break;
    }
  }
  return pieces;
}

LineReader::LineReader(const InputFile& file,
                       std::int64_t begin,
                       std::int64_t end,
                       std::size_t longest)
    : file_(file),
      at_(begin),
      end_(end),
      longest_(longest),
      buffer_(static_cast<std::size_t>(std::min(bytes_at_once, end - begin))) {}

bool LineReader::next() {
  pieces_.clear();
  if (at_ >= end_) return false;
  const std::int64_t length = std::min(bytes_at_once, end_ - at_);
  const bool last = at_ + length == file_.size();
  const auto bytes = std::span(buffer_).first(static_cast<std::size_t>(length));
  file_.copy(at_, bytes);
  const std::string_view text(bytes.data(), bytes.size());
  const std::size_t whole =
      for_each_character(text, at_, last, file_.path(), [](char32_t, std::int64_t) {});
  std::size_t used = 0;
  pieces_ = split_lines(text.substr(0, whole), last, used, longest_);
  at_ = used > 0 ? at_ + static_cast<std::int64_t>(used) : end_;
  return !pieces_.empty();
}

}  // namespace longspan
