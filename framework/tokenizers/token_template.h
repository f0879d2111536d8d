// The tokens around those of a text: what begins and ends it.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// Of one text; pairs of texts are not made.
struct TokenTemplate {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
};

// Of the member "post_processor" of a file: TemplateProcessing, BertProcessing, RobertaProcessing,
// ByteLevel (which adds nothing) and sequences of them. Throws DataError for another kind.
TokenTemplate read_token_template(const JsonCursor& json);

}  // namespace longspan
