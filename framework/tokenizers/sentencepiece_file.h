// A model file of the SentencePiece library (sentencepiece_model.proto), as far as tokenizers read
// it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct SentencePieceFile {
  enum class PieceType : int { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  enum class ModelType : int { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces;
  ModelType model_type = ModelType::unigram;
  int unknown_id = 0;
  bool byte_fallback = false;
  bool space_as_suffix = false;      // treat_whitespace_as_suffix
  std::string precompiled_charsmap;  // of the normalizer; empty: identity
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Empty where the bytes are no such message, or one without pieces.
std::optional<SentencePieceFile> read_sentencepiece_file(std::string_view bytes);

}  // namespace longspan
