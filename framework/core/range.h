// Ranges of consecutive indices: rows, positions, elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace longspan {

// Half-open: [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// In storage order of the indexed elements.
using Ranges = std::vector<Range>;

inline std::int64_t total_count(const Ranges& ranges) {
  std::int64_t total = 0;
  for (const Range& range : ranges) total += range.count();
  return total;
}

// Returns entries [begin, end) of the concatenated ranges.
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

// A rank's shard [begin, begin + count) of an axis of `total` elements.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t total = 0;
};

// Returns the shard of an axis that is split as evenly as possible.
inline ShardRange shard_range(std::int64_t total, int rank, int ranks) {
  const std::int64_t begin = total * rank / ranks;
  return {begin, total * (rank + 1) / ranks - begin, total};
}

}  // namespace longspan
