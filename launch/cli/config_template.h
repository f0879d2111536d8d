// A first configuration of a family, to begin from.
#pragma once

#include <string>

namespace longspan {

// YAML with a comment for each key, from the option tables: a small model that trains as it stands
// once the data are set, which stand there commented out. Throws Failure for a name that is no
// family's.
std::string config_template(const std::string& family);

}  // namespace longspan
