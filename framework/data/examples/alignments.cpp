#include "framework/data/examples/alignments.h"

#include <charconv>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/lines.h"

namespace longspan {
namespace {

// Removes and returns the number at the beginning of the text; -1 if there is none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = -1;
  if (text.empty() || text.front() == '-') return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

ExampleIndex scanned(const InputFile& file,
                     std::int64_t pairs,
                     const std::function<Lengths(std::int64_t)>& lengths,
                     const ProgressCallback& heard) {
  ExampleIndex index;
  for_each_line_block(file, heard, [&](std::span<const Line> lines) {
    for (const Line& line : lines) {
      const std::string place = line_location(file.path(), line.number);
      if (line.number > pairs)
        throw DataError(
            "{}: expected at most {} lines of links, one per pair of lines", place, pairs);
      index.add(line.offset,
                std::ssize(parse_alignment(line.text, lengths(line.number - 1), place)),
                place);
    }
  });
  index.finish(file.size());
  if (index.size() < pairs)
    throw DataError("{}: expected {} lines of links, one per pair of lines, found {}",
                    file.path(),
                    pairs,
                    index.size());
  return index;
}

}  // namespace

std::vector<AlignmentLink> parse_alignment(std::string_view line,
                                           const Lengths& lengths,
                                           std::string_view place) {
  std::vector<AlignmentLink> links;
  while (!line.empty()) {
    if (line.front() == ' ' || line.front() == '\t') {
      line.remove_prefix(1);
      continue;
    }
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    std::string_view rest = word;
    AlignmentLink link;
    link.source = take_number(rest);
    const bool is_parted = link.source >= 0 && rest.starts_with('-');
    if (is_parted) {
      rest.remove_prefix(1);
      link.target = take_number(rest);
    }
    if (!is_parted || link.target < 0 || !rest.empty())
      throw DataError(
          "{}: expected links such as 0-2 (source and target token, counted from 0), found {}",
          place,
          quote(word));
    if (link.source >= lengths.source || link.target >= lengths.target)
      throw DataError(
          "{}: link {} is out of range: the pair has {} source and {} target tokens, counted from "
          "0",
          place,
          truncated(word),
          lengths.source,
          lengths.target);
    links.push_back(link);
    line.remove_prefix(word.size());
  }
  return links;
}

AlignmentFile::AlignmentFile(const ConfigPath& path,
                             std::int64_t pairs,
                             const std::function<Lengths(std::int64_t)>& lengths,
                             const Communicator& all,
                             const ProgressCallback& listener)
    : file_(open_shared(path, all)),
      index_(ExampleIndex::from_bytes(
          scan_shared(file_, all, listener, [=](const auto& file, const auto& heard) {
            return scanned(file, pairs, lengths, heard).bytes();
          }))) {}

std::vector<AlignmentLink> AlignmentFile::read(std::int64_t pair, const Lengths& lengths) const {
  const std::string bytes = read_bytes(*file_, index_.begin(pair), index_.end(pair));
  return parse_alignment(without_line_end(bytes), lengths, line_location(file_->path(), pair + 1));
}

}  // namespace longspan
