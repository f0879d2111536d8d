// YAML and command-line settings as assignments to option keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace longspan
