// Support for encoding a text part by part, which bounds memory. Parts begin with blanks at the
// boundaries of `blank_to_cut_at` (chunk_boundaries.h).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/json_place.h"
#include "framework/tokenizers/word_model.h"

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

// For single texts; pairs are unsupported.
struct TokenTemplate {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
};

// Reads the member "post_processor" of a file: TemplateProcessing, BertProcessing,
// RobertaProcessing, ByteLevel (which adds nothing) and sequences of them. Throws DataError for
// another type.
TokenTemplate read_token_template(const JsonCursor& json);

// For a single thread. It is cleared when full, at some tens of megabytes.
class WordCache {
 public:
  static constexpr std::size_t max_word_length = 64;  // bytes

  WordCache();
  // Returns the tokens of a word of at most max_word_length bytes, encoding it on a miss. Valid
  // until the next call.
  std::span<const WordToken> encode(std::string_view word, const WordModel& model);

 private:
  struct Slot {
    std::uint64_t hash = 0;  // 0: free
    std::uint32_t text = 0;
    std::uint32_t tokens = 0;
    std::uint16_t bytes = 0;
    std::uint16_t count = 0;
  };

  std::vector<Slot> slots_;
  std::string texts_;
  std::vector<WordToken> tokens_;
  std::size_t words_ = 0;
};

}  // namespace longspan
