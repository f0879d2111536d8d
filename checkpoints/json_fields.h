// Reading JSON that is trusted in nothing: each access checks type and range and throws DataError
// with the place, what was found and what was wanted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/manifest.h"

namespace longspan {

using Json = nlohmann::json;

// The one value of the text, which keeps the bounds of framework/core/json_bounds.h where it may
// come from anywhere.
Json parse_json(const std::string& text, const std::string& place);
// A value as a message quotes it: short, whatever it is.
std::string found_text(const Json& value);
const Json& member(const Json& object, const std::string& key, const std::string& place);
std::int64_t integer_of(const Json& value,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& place);
const std::string& text_of(const Json& value, const std::string& place);
const Json& object_of(const Json& value, const std::string& place);
const Json& array_of(const Json& value, const std::string& place);

// What manifests and the reports that ranks send one another are made of.
Json json_of(const Scalars& scalars);
Scalars scalars_of_json(const Json& value, const std::string& place);
Json json_of(const ManifestFile& file);
ManifestFile file_of_json(const Json& value, const std::string& place);
Json json_of(const ManifestTensor& tensor);
// Checks that pieces lie in the tensor and name a dataset of it in a file below `files`, not that
// they cover it.
ManifestTensor tensor_of_json(const Json& value,
                              const std::string& name,
                              int files,
                              const std::string& place);

}  // namespace longspan
