// The command `config`.
#pragma once

#include <string>

namespace longspan {

// Returns YAML with a comment for each key, from the option tables. It describes a small model that
// trains once the data keys are set, which are commented out. Throws Failure for an unknown family.
std::string config_template(const std::string& family);

}  // namespace longspan
