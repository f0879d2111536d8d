// Whether what is done with a text can be done part by part, which keeps memory small: the parts
// begin with blanks as `blank_to_cut_at` (chunk_boundaries.h) finds them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace longspan {

// The member "normalizer" of a file for all parts of a text but the first, where each part is
// normalised by itself; none where that is not sure to be the same.
std::optional<nlohmann::json> normalizer_of_later_parts(const nlohmann::json& normalizer);

// What the member "pre_tokenizer" does where a part begins.
enum class PartCut : std::uint8_t {
  depends,  // on more than one part
  cuts,     // a word ends and another one begins
  keeps,    // a word may go on there
};
PartCut cut_of_parts(const nlohmann::json& pre_tokenizer);

}  // namespace longspan
