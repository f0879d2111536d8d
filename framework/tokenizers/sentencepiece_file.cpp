#include <bit>
#include <cstdint>
#include <functional>

#include "framework/tokenizers/slow_tokenizer.h"

namespace longspan {
namespace {

// A protocol buffer field: a number, or bytes.
struct ProtoField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

bool read_varint(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool read_fixed(std::string_view& rest, std::size_t width, std::uint64_t& value) {
  if (rest.size() < width) return false;
  value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  rest.remove_prefix(width);
  return true;
}

// Calls f(field) for each field of a message; returns false for an invalid message.
template <typename F>
bool for_each_field(std::string_view rest, F&& f) {
  while (!rest.empty()) {
    std::uint64_t key = 0;
    ProtoField field;
    if (!read_varint(rest, key)) return false;
    field.number = key >> 3;
    switch (key & 7) {
      case 0:
        if (!read_varint(rest, field.value)) return false;
        break;
      case 1:
        if (!read_fixed(rest, 8, field.value)) return false;
        break;
      case 2: {
        std::uint64_t width = 0;
        if (!read_varint(rest, width) || width > rest.size()) return false;
        field.bytes = rest.substr(0, width);
        rest.remove_prefix(width);
        break;
      }
      case 5:
        if (!read_fixed(rest, 4, field.value)) return false;
        break;
      default:
        return false;
    }
    if (!f(field)) return false;
  }
  return true;
}

bool read_piece(std::string_view bytes, SentencePieceFile& file) {
  SentencePieceFile::Piece& piece = file.pieces.emplace_back();
  return for_each_field(bytes, [&piece](const ProtoField& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2)
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3)
      piece.type = static_cast<SentencePieceFile::PieceType>(static_cast<int>(field.value));
    return true;
  });
}

bool read_trainer(std::string_view bytes, SentencePieceFile& file) {
  return for_each_field(bytes, [&file](const ProtoField& field) {
    if (field.number == 3)
      file.model_type = static_cast<SentencePieceFile::ModelType>(static_cast<int>(field.value));
    if (field.number == 24) file.space_as_suffix = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
    if (field.number == 40) file.unknown_id = static_cast<int>(field.value);
    return true;
  });
}

bool read_normalizer_spec(std::string_view bytes, SentencePieceFile& file) {
  return for_each_field(bytes, [&file](const ProtoField& field) {
    if (field.number == 2) file.precompiled_charsmap = field.bytes;
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
    return true;
  });
}

}  // namespace

std::optional<SentencePieceFile> read_sentencepiece_file(std::string_view bytes) {
  SentencePieceFile file;
  const bool is_complete = for_each_field(bytes, [&file](const ProtoField& field) {
    if (field.number == 1) return read_piece(field.bytes, file);
    if (field.number == 2) return read_trainer(field.bytes, file);
    if (field.number == 3) return read_normalizer_spec(field.bytes, file);
    return true;
  });
  if (!is_complete || file.pieces.empty()) return std::nullopt;
  return file;
}

}  // namespace longspan
