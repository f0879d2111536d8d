// A JSON Schema of the configuration, for editors and other programs.
#pragma once

#include <nlohmann/json.hpp>

namespace longspan {

// Draft 2020-12, made from the option tables: every section and key with its type, bounds, choices,
// default and meaning; the keys of `model` are those of the family that a file names. It accepts
// what a file may say beside what several keys demand of each other.
nlohmann::ordered_json configuration_schema();

}  // namespace longspan
