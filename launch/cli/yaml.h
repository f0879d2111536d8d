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
  bool whole = true;  // false: a complaint says why there may be keys that are not here
};

// Reads one document: nested mappings of words and lists of words. `file` stands in the marks.
// Whatever else YAML can say (aliases, tags, several documents, keys given twice, ...) becomes a
// complaint; so does what is not YAML, not UTF-8 or not there.
ParsedYaml read_yaml(std::string_view text, const std::string& file);

// Reads "key=value". The value is one word as it stands, or, when it begins with [ { " or ', a
// piece of YAML: "data.train=[a.txt, b.txt]".
ParsedYaml read_setting(std::string_view text);

}  // namespace longspan
