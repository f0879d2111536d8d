// Checks of numbers on the command line, whose sentences name no range of all doubles.
#pragma once

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <string>

namespace longspan {

inline CLI::Validator positive_number() {
  return {[](const std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number > 0) return {};
            return fmt::format("{} is no number above 0", text);
          },
          "POSITIVE"};
}

inline CLI::Validator no_negative_number() {
  return {[](const std::string& text) -> std::string {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number >= 0) return {};
            return fmt::format("{} is no number from 0 on", text);
          },
          "NONNEGATIVE"};
}

}  // namespace longspan
