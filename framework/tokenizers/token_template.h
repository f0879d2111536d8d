// The template of special tokens around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// For single texts; pairs are unsupported.
struct TokenTemplate {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
};

// Reads the member "post_processor" of a file: TemplateProcessing, BertProcessing,
// RobertaProcessing, ByteLevel (which adds nothing) and sequences of them. Throws DataError for
// another type.
TokenTemplate read_token_template(const JsonCursor& json);

}  // namespace longspan
