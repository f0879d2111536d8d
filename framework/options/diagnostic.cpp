#include "framework/options/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "framework/core/error.h"

namespace longspan {
namespace {

auto order_of(const Diagnostic& diagnostic) {
  const SourceLocation& mark = diagnostic.mark;
  return std::tuple(mark.file.empty(), mark.line, mark.column);
}

}  // namespace

std::string SourceLocation::to_string() const {
  if (file.empty()) return "--set";
  return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
}

std::vector<std::string> lines_of(std::vector<Diagnostic> complaints) {
  std::ranges::stable_sort(complaints,
                           [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : complaints)
    lines.push_back(fmt::format("{}: {}", diagnostic.mark.to_string(), diagnostic.message));
  return lines;
}

void throw_if_any(std::vector<Diagnostic> complaints) {
  if (complaints.empty()) return;
  std::vector<std::string> lines = lines_of(std::move(complaints));
  if (lines.size() > max_reported) {
    const std::size_t others = lines.size() - max_reported;
    lines.resize(max_reported);
    lines.push_back(fmt::format("and {} more error{}", others, others == 1 ? "" : "s"));
  }
  throw ConfigurationError("{}", fmt::join(lines, "\n"));
}

}  // namespace longspan
