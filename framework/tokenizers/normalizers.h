// What a text becomes before it is cut: normal forms, small letters, replacements.
#pragma once

#include <functional>
#include <string_view>

#include "framework/tokenizers/aligned_text.h"
#include "framework/tokenizers/json_place.h"

namespace longspan {

// Takes valid UTF-8 and gives valid UTF-8. Thread-safe.
using TextNormalizer = std::function<AlignedText(const TextPiece&)>;

// Of the member "normalizer" of a file; empty where it is null. Throws DataError for a kind that is
// not known.
TextNormalizer read_normalizer(const JsonCursor& json);

// Unicode's normal forms (UAX 15), of which the package `tokenizers` knows Unicode of some years
// ago (unicode_tables.h).
struct NormalForm {
  bool composes = false;    // C, not D
  bool compatible = false;  // K
};
AlignedText in_normal_form(const TextPiece& piece, NormalForm form);

// The table of replacements of a model of SentencePiece ("precompiled_charsmap"): a double array of
// texts and the texts that replace them. Throws DataError for one that is damaged.
TextNormalizer read_precompiled(const JsonCursor& json);

}  // namespace longspan
