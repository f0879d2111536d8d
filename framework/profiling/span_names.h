// What recorded spans are called.
#pragma once

#include <string>
#include <unordered_map>

#include "framework/core/timeline.h"

namespace longspan {

// Names as people read them; those of functions are made once.
class SpanNames {
 public:
  // "step 7", "layers/0/attention", "linear", "linear (backward)", "waiting for all_reduce".
  // `texts`: those of the recording.
  std::string name_of(const TimedSpan& span, const std::deque<std::string>& texts);

 private:
  const std::string& function(const std::source_location& place);

  std::unordered_map<const char*, std::string> functions_;
};

}  // namespace longspan
