// Start and end tokens of generated sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

class OptionTable;

// Configured tokens: by name for a tokenizer.json, by number for a tokenizer of ids. Other
// tokenizers ignore them.
struct SpecialTokenNames {
  // data.tokenizer.decoder_start_token: first input of the decoder
  std::optional<std::string> begin = {};
  std::optional<std::string> end = {};  // data.tokenizer.eos_token
  // data.tokenizer.forced_bos_token: first token of every output
  std::optional<std::string> first = {};
};

// Declares data.tokenizer.decoder_start_token, data.tokenizer.eos_token and
// data.tokenizer.forced_bos_token.
void declare(OptionTable& table, SpecialTokenNames& tokens, const TokenizerKind& kind);

// Ids in addition to text tokens. The tokenizer's own ids if it has them; otherwise appended to its
// vocabulary, whose ids do not change.
struct SpecialTokenIds {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t vocabulary = 0;             // number of ids, with both
  std::optional<std::int64_t> first = {};  // forced after `begin`, not in outputs
  bool allows_bos = false;                 // outputs may contain `begin`, because text does
};

// Returns the configured ids. The default end is the last token after a text in the template of a
// tokenizer.json. Throws ConfigurationError for an unknown name.
SpecialTokenIds sentence_ids(const Tokenizer& tokenizer, const SpecialTokenNames& named = {});

// Returns the maximum number of ids appended to a tokenizer of this type.
std::int64_t max_sentence_ids(TokenizerKind kind, const SpecialTokenNames& named);

// Decodes generated ids up to the first end token, without special tokens. For a tokenizer.json,
// line ends are replaced by blanks, so that the result is one line. Throws DataError for an id
// outside of the vocabulary.
std::string decode_sentence(const Tokenizer& tokenizer,
                            std::span<const std::int64_t> ids,
                            const SpecialTokenNames& named = {});

}  // namespace longspan
