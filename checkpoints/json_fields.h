// Reads untrusted JSON. Each access checks type and range, and throws DataError with the place, the
// found and the expected value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/manifest.h"

namespace longspan {

using Json = nlohmann::json;

// Parses one JSON value. Text from untrusted files must be within the bounds of
// framework/core/json_bounds.h.
Json parse_json(const std::string& text, const std::string& place);
// Formats a value for messages, shortened.
std::string found_text(const Json& value);
const Json& member(const Json& object, const std::string& key, const std::string& place);
std::int64_t integer_of(const Json& value,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& place);
const std::string& text_of(const Json& value, const std::string& place);
const Json& object_of(const Json& value, const std::string& place);
const Json& array_of(const Json& value, const std::string& place);

// Serializes scalars for manifests and the reports exchanged by ranks.
Json json_of(const Scalars& scalars);
Scalars scalars_of_json(const Json& value, const std::string& place);
Json json_of(const ManifestFile& file);
ManifestFile file_of_json(const Json& value, const std::string& place);
Json json_of(const ManifestTensor& tensor);
// Parses a tensor. Checks that its pieces lie in the tensor and name its dataset in a file index
// below `files`, but not coverage.
ManifestTensor tensor_of_json(const Json& value,
                              const std::string& name,
                              int files,
                              const std::string& place);

}  // namespace longspan
