#include <fmt/format.h>

#include "framework/core/utf8.h"
#include "launch/cli/yaml.h"

namespace longspan {

std::optional<Diagnostic> check_yaml_text(std::string_view text, const std::string& file) {
  SourceLocation mark{file, 1, 1};
  bool in_indentation = true;
  std::optional<SourceLocation> tab;
  while (!text.empty()) {
    const Utf8Character character = decode_utf8(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (character.status != Utf8Status::valid) {
      return Diagnostic{mark,
                        fmt::format("expected UTF-8 text, found the invalid byte 0x{:02x}", byte)};
    }
    const char c = text[0];
    if ((byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f) {
      return Diagnostic{mark,
                        fmt::format("expected UTF-8 text, found the control byte 0x{:02x}", byte)};
    }
    if (c == '\n') {
      mark = {file, mark.line + 1, 1};
      in_indentation = true;
      tab.reset();
    } else {
      if (c == '\t' && in_indentation && !tab) tab = mark;
      if (c != '\t' && c != ' ' && c != '\r') {
        // YAML ignores lines that contain only white space or a comment.
        if (in_indentation && tab && c != '#') {
          return Diagnostic{*tab, "expected indentation with spaces, found a tab"};
        }
        in_indentation = false;
      }
      ++mark.column;
    }
    text.remove_prefix(static_cast<std::size_t>(character.width));
  }
  return std::nullopt;
}

}  // namespace longspan
