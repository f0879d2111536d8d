// Normalizers, which run before the split into words: normal forms, lowercase, replacements.
#pragma once

#include <functional>
#include <string_view>

#include "framework/tokenizers/aligned_text.h"
#include "framework/tokenizers/json_place.h"

namespace longspan {

// Maps valid UTF-8 to valid UTF-8. Thread-safe.
using TextNormalizer = std::function<AlignedText(const TextPiece&)>;

// Reads the member "normalizer" of a file. Returns empty for null. Throws DataError for an
// unsupported type.
TextNormalizer read_normalizer(const JsonCursor& json);

// Unicode normal forms (UAX 15) of the older Unicode version of the package `tokenizers`
// (unicode_tables.h).
struct NormalForm {
  bool composes = false;    // C, not D
  bool compatible = false;  // K
};
AlignedText in_normal_form(const TextPiece& piece, NormalForm form);

// Reads SentencePiece's table of replacements ("precompiled_charsmap"): a double-array trie of
// strings and their replacements. Throws DataError for an invalid table.
TextNormalizer read_precompiled(const JsonCursor& json);

}  // namespace longspan
