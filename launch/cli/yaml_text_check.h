// Checks the text of a configuration file before parsing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/options/options.h"

namespace longspan {

// Returns the first location with invalid UTF-8, a control character or indentation by a tab.
std::optional<Diagnostic> check_yaml_text(std::string_view text, const std::string& file);

}  // namespace longspan
