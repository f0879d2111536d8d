// Support for encoding a text part by part, which bounds memory. Parts begin with blanks at the
// boundaries of `blank_to_cut_at` (chunk_boundaries.h).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace longspan {

// Returns the member "normalizer" for all parts of a text but the first, where each part is
// normalized separately. Returns nothing where equal results are not guaranteed.
std::optional<nlohmann::json> normalizer_of_later_parts(const nlohmann::json& normalizer);

// Effect of the member "pre_tokenizer" at the beginning of a part.
enum class PartCut : std::uint8_t {
  depends,  // depends on more than one part
  cuts,     // a word ends and another one begins
  keeps,    // a word may continue
};
PartCut cut_of_parts(const nlohmann::json& pre_tokenizer);

}  // namespace longspan
