// JSON Schema of the configuration, for editors and other programs.
#pragma once

#include <nlohmann/json.hpp>

namespace longspan {

// Returns a schema (draft 2020-12) from the option tables. It has every section and key with its
// type, bounds, choices, default and meaning. The keys of `model` depend on the file's family. It
// expresses the rules between keys that are declared with one of them, and no other checks. It does
// not know values of --set.
nlohmann::ordered_json configuration_schema();

}  // namespace longspan
