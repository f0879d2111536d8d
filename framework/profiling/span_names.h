// Display names of recorded spans.
#pragma once

#include <string>
#include <unordered_map>

#include "framework/core/timeline.h"

namespace longspan {

// Formats display names; function names are cached.
class SpanNames {
 public:
  // Returns "step 7", "layers/0/attention", "linear", "linear (backward)" or "waiting for
  // all_reduce". `texts`: those of the recording.
  std::string name_of(const TimedSpan& span, const std::deque<std::string>& texts);

 private:
  const std::string& function(const std::source_location& place);

  std::unordered_map<const char*, std::string> functions_;
};

}  // namespace longspan
