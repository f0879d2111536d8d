// A SentencePiece model file (sentencepiece_model.proto): the fields that tokenizers need.
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

// Returns nothing for an invalid message, or for a model without pieces.
std::optional<SentencePieceFile> read_sentencepiece_file(std::string_view bytes);

}  // namespace longspan
