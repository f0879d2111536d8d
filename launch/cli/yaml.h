// YAML and command-line settings as assignments to option keys.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/options/diagnostic.h"
#include "framework/options/options.h"

namespace longspan {

struct ParsedYaml {
  std::vector<Assignment> assignments;
  std::vector<Diagnostic> complaints;
  bool whole = true;  // false: a diagnostic explains why keys may be missing
};

// Parses one document: nested mappings of words and lists of words. `file`: the file name in
// locations. Reports a diagnostic for any other YAML feature (aliases, tags, several documents,
// duplicate keys, ...). Also reports invalid YAML, invalid UTF-8 and missing text.
ParsedYaml read_yaml(std::string_view text, const std::string& file);

// Parses "key=value". The value is taken verbatim as one word, or, if it begins with [ { " or ',
// parsed as YAML: "data.train=[a.txt, b.txt]".
ParsedYaml read_setting(std::string_view text);

// Maps positions of UTF-8 text in constant time, as a file may have as many positions as words.
class SourceMap {
 public:
  explicit SourceMap(std::string_view text) {
    characters_.reserve(text.size() + 1);
    int characters = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      characters_.push_back(characters);
      if ((static_cast<unsigned char>(text[i]) & 0xc0u) != 0x80u) ++characters;
      if (text[i] == '\n') lines_.push_back(i + 1);
    }
    characters_.push_back(characters);
  }

  // Returns the location, in characters from 1, of a byte of a line; both are counted from 0. Lines
  // after the last one map to the start of the last line. Beyond the end of the text each byte
  // counts as a character.
  SourceLocation mark(const std::string& file, int line, int byte) const {
    const int last = static_cast<int>(lines_.size()) - 1;
    return line > last ? SourceLocation{file, last + 1, 1}
                       : SourceLocation{file, line + 1, column(line, byte)};
  }

 private:
  int column(int line, int byte) const {
    const std::size_t begin = lines_[static_cast<std::size_t>(line)];
    const std::size_t end = characters_.size() - 1;
    const std::size_t at = begin + static_cast<std::size_t>(byte);
    const std::size_t behind = at > end ? at - end : 0;
    return characters_[at - behind] - characters_[begin] + static_cast<int>(behind) + 1;
  }

  std::vector<std::size_t> lines_ = {0};  // where each begins
  std::vector<int> characters_;           // characters that begin before each byte
};

// Returns the first location with invalid UTF-8, a control character or indentation by a tab.
std::optional<Diagnostic> check_yaml_text(std::string_view text, const std::string& file);

}  // namespace longspan
