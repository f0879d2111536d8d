// What begins and ends a sentence that is to be produced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

class OptionTable;

// The tokens of a tokenizer.json that do so by their names, those of a tokenizer of ids by their
// numbers; of other tokenizers they are not read.
struct SpecialTokenNames {
  // data.tokenizer.decoder_start_token: what the decoder reads first
  std::optional<std::string> begin = {};
  std::optional<std::string> end = {};  // data.tokenizer.eos_token
  // data.tokenizer.forced_bos_token: what every result begins with
  std::optional<std::string> first = {};
};

// The keys data.tokenizer.decoder_start_token, data.tokenizer.eos_token and
// data.tokenizer.forced_bos_token.
void declare(OptionTable& table, SpecialTokenNames& tokens, const TokenizerKind& kind);

// Ids beside those of a text. Where the tokenizer's model has them they are its own; else they
// follow its vocabulary, whose ids stay what they are.
struct SpecialTokenIds {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t vocabulary = 0;             // the number of ids with both
  std::optional<std::int64_t> first = {};  // read behind `begin`, and no part of a result
  bool says_begin = false;                 // a result may have `begin` in it: texts have it too
};

// Those that are named; an end that is not named is what the template of a tokenizer.json puts last
// behind a text. Throws ConfigurationError for a name that it does not know.
SpecialTokenIds sentence_ids(const Tokenizer& tokenizer, const SpecialTokenNames& named = {});

// At most so many ids follow those of a tokenizer of this kind.
std::int64_t most_sentence_ids(TokenizerKind kind, const SpecialTokenNames& named);

// The text of what was produced: up to the first end of a sentence, without what stands for no
// text. Of a tokenizer.json, whose tokens may hold ends of lines, it is made one line: these become
// blanks. Throws DataError for an id outside of the vocabulary.
std::string decode_sentence(const Tokenizer& tokenizer,
                            std::span<const std::int64_t> ids,
                            const SpecialTokenNames& named = {});

}  // namespace longspan
