// Where the time of a thread went: its spans, added up by what they are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "framework/profiling/span_names.h"

namespace longspan {

// Spans of one kind and name in like places of the model: the number of a layer does not count
// ("layers/*/attention").
struct ProfileKey {
  std::string kind;
  std::string name;
  std::string layer;
  friend auto operator<=>(const ProfileKey&, const ProfileKey&) = default;
};

struct ProfileTotals {
  std::int64_t self_time = 0;  // nanoseconds, outside of the spans within them
  std::int64_t total = 0;      // with those; a span within another of its line counts once
  std::int64_t calls = 0;

  ProfileTotals& operator+=(const ProfileTotals& more);
};

using ProfileSummary = std::map<ProfileKey, ProfileTotals>;

// Of what a thread did itself within steps that are whole: collectives, which go on beside it, are
// left out. Where there was no room for all spans those of the last steps are missing, and the span
// of a step, which ends last, is the first of its spans to be: of such a step nothing counts.
ProfileSummary lines_of(const RecordedSpans& recorded);

// The number of the last step that is whole, 0 where none is.
std::int64_t last_whole_step(const RecordedSpans& recorded);

// As a text that another rank reads.
std::string to_text(const ProfileSummary& lines);
void add_text(std::string_view text, ProfileSummary& lines);

// What the sums are of.
struct LinesOf {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // that is whole on a rank; 0: none is
  int ranks = 1;
};

// A heading and the lines with the most own time, `most` of them: milliseconds and calls of a step,
// as means over the steps that each rank has whole. Where there is none the heading says so. Each
// text is a line.
std::vector<std::string> table_of(const ProfileSummary& lines,
                                  const LinesOf& of,
                                  std::size_t most = 10);

}  // namespace longspan
