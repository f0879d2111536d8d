// Runs of consecutive numbers: rows, positions, elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace longspan {

// [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// One after another, in the order in which what they number is held.
using Ranges = std::vector<Range>;

inline std::int64_t pluralize(const Ranges& ranges) {
  std::int64_t total = 0;
  for (const Range& range : ranges) total += range.count();
  return total;
}

// Of what the ranges number, entries [begin, end).
inline Ranges slice(const Ranges& ranges, std::int64_t begin, std::int64_t end) {
  Ranges result;
  for (const Range& range : ranges) {
    const Range part = {range.begin + std::clamp(begin, std::int64_t{0}, range.count()),
                        range.begin + std::clamp(end, std::int64_t{0}, range.count())};
    if (part.count() > 0) result.push_back(part);
    begin -= range.count();
    end -= range.count();
  }
  return result;
}

}  // namespace longspan
