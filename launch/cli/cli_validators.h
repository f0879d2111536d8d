// Checks of what the command line gives, whose sentences say what was found and what is wanted.
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

// For `transform`: the parser itself would clip what does not fit and take 010 for an octal number.
template <std::integral T>
CLI::Validator whole_number(T least, T most = std::numeric_limits<T>::max()) {
  return {[least, most](std::string& text) -> std::string {
            T number = 0;
            const char* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            if (error != std::errc() || stop != end || number < least || number > most)
              return fmt::format(
                  "found \"{}\"; wanted a whole number from {} {}",
                  text,
                  least,
                  most == std::numeric_limits<T>::max() ? "on" : fmt::format("to {}", most));
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
            return fmt::format("found \"{}\"; wanted a finite number above 0", text);
          },
          "POSITIVE"};
}

inline CLI::Validator no_negative_number() {
  return {[](const std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number >= 0 && std::isfinite(number))
              return {};
            return fmt::format("found \"{}\"; wanted a finite number from 0 on", text);
          },
          "NONNEGATIVE"};
}

inline CLI::Validator not_empty_text() {
  return {[](const std::string& text) -> std::string {
            return text.empty() ? "found nothing; wanted a name" : "";
          },
          ""};
}

}  // namespace longspan
