// Lines of JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"

namespace longspan {

// The text of the member `field` of the object that the line is. Nothing but that is kept of it.
// Throws DataError, beginning with `place`, for what is no JSON (RFC 8259) or no object, where the
// field is missing or there twice, and where it is no text.
std::string json_field(std::string_view line, const std::string& field, const std::string& place);

// The first line of a file that is not blank, as far as 64 KiB.
struct JsonBeginning {
  bool is_object = false;                // the line, or its beginning
  bool is_array_of_objects = false;      // or begins as one
  std::vector<std::string> fields = {};  // of the object, those that are texts
};

// Throws DataError as DecompressedFile does.
JsonBeginning beginning_of(const InputFile& file);

}  // namespace longspan
