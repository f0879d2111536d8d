// One text of a line of JSON.
#pragma once

#include <string>
#include <string_view>

namespace longspan {

// The text of the member `field` of the object that the line is. Nothing but that is kept of it.
// Throws DataError, beginning with `place`, for what is no JSON (RFC 8259) or no object, where the
// field is missing or there twice, and where it is no text.
std::string json_field(std::string_view line, const std::string& field, const std::string& place);

}  // namespace longspan
