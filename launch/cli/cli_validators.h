// Validators of command-line values. Their messages state what was expected and found.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>

namespace longspan {

// Use with `transform`: the parser itself would clamp out-of-range values and read 010 as octal.
template <std::integral T>
CLI::Validator whole_number(T least, T most = std::numeric_limits<T>::max()) {
  return {[least, most](std::string& text) -> std::string {
            T number = 0;
            const char* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            if (error != std::errc() || stop != end || number < least || number > most)
              return fmt::format("expected an integer {}, found \"{}\"",
                                 most == std::numeric_limits<T>::max()
                                     ? fmt::format("of at least {}", least)
                                     : fmt::format("from {} to {}", least, most),
                                 text);
            text = fmt::to_string(number);
            return {};
          },
          least > 0 ? "POSITIVE" : "NONNEGATIVE"};
}

inline CLI::Validator positive_number() {
  return {[](const std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number > 0 && std::isfinite(number))
              return {};
            return fmt::format("expected a finite number above 0, found \"{}\"", text);
          },
          "POSITIVE"};
}

inline CLI::Validator no_negative_number() {
  return {[](const std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number >= 0 && std::isfinite(number))
              return {};
            return fmt::format("expected a finite number of at least 0, found \"{}\"", text);
          },
          "NONNEGATIVE"};
}

inline CLI::Validator not_empty_text() {
  return {[](const std::string& text) -> std::string {
            return text.empty() ? "expected a name, found nothing" : "";
          },
          ""};
}

}  // namespace longspan
