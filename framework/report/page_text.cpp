#include "framework/report/page_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace longspan {

std::string html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
        if (is_control)
          escaped += "&#xfffd;";
        else
          escaped += c;
      }
    }
  }
  return escaped;
}

std::string script_string(std::string_view text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  for (const char c : quoted) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string short_number(double value) { return fmt::format("{:.6g}", value); }

std::string grouped(std::int64_t count) {
  std::string digits = fmt::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (std::ptrdiff_t place = std::ssize(digits) - 3; place > first; place -= 3)
    digits.insert(static_cast<std::size_t>(place), ",");
  return digits;
}

std::string counted_text(double count) {
  constexpr double exact = 0x1p53;  // up to it doubles represent all integers
  if (!(std::abs(count) <= exact)) return short_number(count);
  return grouped(static_cast<std::int64_t>(count));
}

std::string time_text(double seconds) {
  constexpr double countable = 1e17;
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  if (!(seconds < countable)) return short_number(seconds) + " s";
  const auto minutes = static_cast<std::int64_t>(std::round(seconds / 60));
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", grouped(minutes / 60), minutes % 60);
}

}  // namespace longspan
