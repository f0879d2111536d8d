#include "framework/core/some_of.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longspan {

std::string join_first(std::span<const std::string> names) {
  constexpr std::size_t most = 3;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.first(most), ", "), names.size() - most);
}

}  // namespace longspan
