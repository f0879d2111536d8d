#include "framework/data/text_part_reader.h"

#include <algorithm>

#include "framework/data/character_scan.h"
#include "framework/data/mapped_file.h"
#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

constexpr std::int64_t bytes_at_once = std::int64_t{1} << 22;
constexpr std::size_t part_bytes = std::size_t{1} << 18;

}  // namespace

// Throws where others than the last bytes are no whole characters.
std::size_t TextPartReader::checked_bytes() const {
  const auto fresh = std::string_view(text_).substr(checked_);
  const std::size_t valid = valid_utf8_bytes(fresh);
  if (valid < fresh.size())
    for_each_character(fresh.substr(valid),
                       at_ - static_cast<std::int64_t>(fresh.size() - valid),
                       at_ == file_.size(),
                       file_.path(),
                       [](char32_t, std::int64_t) {});
  return checked_ + valid;
}

bool TextPartReader::next() {
  parts_.clear();
  text_.erase(0, given_);
  checked_ -= given_;
  given_ = 0;
  const std::int64_t length = std::min(bytes_at_once, file_.size() - at_);
  if (length == 0) return false;
  const std::size_t before = text_.size();
  text_.resize(before + static_cast<std::size_t>(length));
  file_.copy(at_, std::span(text_).subspan(before));
  file_.release(at_, at_ + length);
  at_ += length;
  checked_ = checked_bytes();
  const std::string_view whole = std::string_view(text_).substr(0, checked_);
  const std::int64_t begin = at_ - static_cast<std::int64_t>(text_.size());
  const auto give = [&](std::size_t end) {
    parts_.push_back(
        {whole.substr(given_, end - given_), begin + static_cast<std::int64_t>(given_)});
    given_ = end;
    searched_ = 0;
  };
  while (given_ < whole.size()) {
    const std::string_view rest = whole.substr(given_);
    std::size_t end = place_to_cut_(rest, std::max(part_bytes, searched_));
    if (end == std::string_view::npos) {
      searched_ = rest.size();
      if (rest.size() < most_) break;
      end = most_;
      while (end < rest.size() && (static_cast<unsigned char>(rest[end]) & 0xC0) == 0x80) --end;
    }
    give(given_ + end);
  }
  if (at_ == file_.size() && given_ < whole.size()) give(whole.size());
  return true;
}

}  // namespace longspan
