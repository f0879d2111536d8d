#include "framework/profiling/span_names.h"

#include <fmt/format.h>

#include "framework/core/format.h"

namespace longspan {

std::string SpanNames::name_of(const TimedSpan& span, const std::deque<std::string>& texts) {
  if (span.kind == ActivityKind::step) return fmt::format("step {}", span.number);
  if (span.kind == ActivityKind::layer && span.name == nullptr) return texts[span.layer];
  const std::string& name = span.name != nullptr ? span.name : function(span.place);
  if (span.kind == ActivityKind::idle) return "waiting for " + name;
  return span.backward ? name + " (backward)" : name;
}

const std::string& SpanNames::function(const std::source_location& place) {
  const char* const words = place.function_name();
  const auto known = functions_.find(words);
  if (known != functions_.end()) return known->second;
  return functions_.emplace(words, short_function_name(words)).first->second;
}

}  // namespace longspan
