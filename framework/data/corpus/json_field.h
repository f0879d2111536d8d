// Fields of JSON Lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"

namespace longspan {

// Returns the string member `field` of the JSON object in a line. The rest is not stored. Throws
// DataError, prefixed with `place`, for invalid JSON (RFC 8259) or a line that is not an object.
// Throws it also for a field that is missing, duplicated or not a string.
std::string json_field(std::string_view line, const std::string& field, const std::string& place);

// First nonblank line of a file, up to 64 KiB.
struct JsonBeginning {
  bool is_object = false;                // the line is an object, or its first 64 KiB start one
  bool is_array_of_objects = false;      // the line starts an array of objects
  std::vector<std::string> fields = {};  // string members of the object
};

// Reads the beginning of a file. Throws DataError as DecompressedFile does.
JsonBeginning beginning_of(const InputFile& file);

}  // namespace longspan
