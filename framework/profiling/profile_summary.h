// Time of a thread's spans, aggregated by kind, name and layer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "framework/profiling/trace_text.h"

namespace longspan {

// Key of spans of one kind and name in corresponding layers: layer indices are dropped
// ("layers/*/attention").
struct ProfileKey {
  std::string kind;
  std::string name;
  std::string layer;
  friend auto operator<=>(const ProfileKey&, const ProfileKey&) = default;
};

struct ProfileTotals {
  std::int64_t self_time = 0;  // nanoseconds, excluding nested spans
  std::int64_t total = 0;      // including nested spans; recursive spans of one line count once
  std::int64_t calls = 0;

  ProfileTotals& operator+=(const ProfileTotals& more);
};

using ProfileSummary = std::map<ProfileKey, ProfileTotals>;

// Sums a thread's own work within complete steps; collectives, which run in parallel, are excluded.
// Where the capacity was reached, the last steps lack spans. A step's span ends last, so it is the
// first to be dropped; steps without one are excluded.
ProfileSummary lines_of(const RecordedSpans& recorded);

// Returns the number of the last complete step, or 0.
std::int64_t last_complete_step(const RecordedSpans& recorded);

// Serializes the summary for another rank.
std::string to_text(const ProfileSummary& lines);
void add_text(std::string_view text, ProfileSummary& lines);

// The scope of the sums.
struct LinesOf {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // the last complete step on a rank; 0: none
  int ranks = 1;
};

// Returns a heading and the `most` lines with the highest self time: milliseconds and calls per
// step, averaged over each rank's complete steps. Without a complete step the heading reports that.
// Each string is one line.
std::vector<std::string> table_of(const ProfileSummary& lines,
                                  const LinesOf& of,
                                  std::size_t most = 10);

}  // namespace longspan
