// The text of a configuration file, judged before it is parsed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/options/options.h"

namespace longspan {

// The first place where the text is not UTF-8, holds a control character or is indented with a tab.
std::optional<Diagnostic> check_yaml_text(std::string_view text, const std::string& file);

}  // namespace longspan
