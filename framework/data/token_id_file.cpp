#include "framework/data/token_id_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/file_values.h"

namespace longspan {

namespace {

IdLayout layout_of(const InputFile& file,
                   const std::optional<MegatronIndex>& index,
                   std::int64_t vocabulary,
                   TokenDType bits) {
  if (!index) return id_layout_of(file, vocabulary, bits);
  require_id_bits(file, bits, index->id_bytes(), index->path().c_str());
  return {.id_bytes = index->id_bytes(), .is_signed = index->is_signed(), .is_stated = true};
}

}  // namespace

TokenIdFile::TokenIdFile(std::shared_ptr<const InputFile> file,
                         std::int64_t vocabulary,
                         TokenDType bits)
    : file_(std::move(file)),
      vocabulary_(vocabulary),
      index_(MegatronIndex::next_to(*file_)),
      layout_(layout_of(*file_, index_, vocabulary, bits)),
      tokens_((file_->size() - layout_.begin) / id_bytes()) {
  require(vocabulary_ >= 1,
          "{}: expected a vocabulary of at least 1 id, found {}",
          file_->path(),
          vocabulary_);
  if ((file_->size() - layout_.begin) % id_bytes() != 0)
    throw DataError("{}: expected whole ids of {} bits (data.token_dtype), found {} bytes",
                    file_->path(),
                    8 * id_bytes(),
                    file_->size());
  spot_check(bits);
}

std::int64_t TokenIdFile::document_begin(std::int64_t document) const {
  require(index_.has_value(), "{}: has no documents", file_->path());
  return index_->document_begin(document);
}

void TokenIdFile::spot_check(TokenDType bits) const {
  constexpr std::int64_t places = 256;
  constexpr std::int64_t most =
      2048;  // ids per position; a multiple of 4, see require_complete_ids
  const std::int64_t step = std::max(most, tokens_ / places / 4 * 4);
  std::array<std::int64_t, most> ids;
  std::array<std::int64_t, 4> nonzero = {};
  for (std::int64_t token = 0; token < tokens_; token += step) {
    const auto here =
        std::span(ids).first(static_cast<std::size_t>(std::min(most, tokens_ - token)));
    read(token, here);
    for (std::size_t i = 0; i < here.size(); ++i) nonzero[i % 4] += here[i] != 0 ? 1 : 0;
  }
  if (!layout_.is_stated && tokens_ >= 4) require_complete_ids(bits, nonzero);
}

void TokenIdFile::require_complete_ids(TokenDType bits,
                                       const std::array<std::int64_t, 4>& nonzero) const {
  const bool odd_are_zero = nonzero[1] == 0 && nonzero[3] == 0;
  if (id_bytes() == 2 && odd_are_zero && nonzero[2] == 0 && nonzero[0] > 0)
    throw DataError(
        "{}: three of four 16-bit ids are 0, as in a file of 64-bit ids (NumPy's int64); set "
        "data.token_dtype to uint64",
        file_->path());
  if (id_bytes() == 4 && odd_are_zero && nonzero[0] > 0)
    throw DataError(
        "{}: every second 32-bit id is 0, as in a file of 64-bit ids (NumPy's int64); set "
        "data.token_dtype to uint64",
        file_->path());
  if (bits == TokenDType::fitting && id_bytes() == 2 && odd_are_zero && nonzero[0] > 0)
    throw DataError(
        "{}: every second 16-bit id is 0, as in a file of 32-bit ids; set data.token_dtype to "
        "uint32, or to uint16 if the ids are correct",
        file_->path());
}

void TokenIdFile::read(std::int64_t token, std::span<std::int64_t> out) const {
  const auto put = [&](std::int64_t i, auto found) {
    const auto id = static_cast<std::int64_t>(found);
    if (id < 0 || id >= vocabulary_) throw_data_error(token + i, id);
    out[static_cast<std::size_t>(i)] = id;
  };
  const std::int64_t at = layout_.begin + token * id_bytes(), count = std::ssize(out);
  switch (layout_.is_signed ? -id_bytes() : id_bytes()) {
    case 1:
      return for_each_value<std::uint8_t>(*file_, at, count, put);
    case -1:
      return for_each_value<std::int8_t>(*file_, at, count, put);
    case 2:
      return for_each_value<std::uint16_t>(*file_, at, count, put);
    case -2:
      return for_each_value<std::int16_t>(*file_, at, count, put);
    case 4:
      return for_each_value<std::uint32_t>(*file_, at, count, put);
    case -4:
      return for_each_value<std::int32_t>(*file_, at, count, put);
    default:
      return for_each_value<std::int64_t>(*file_, at, count, put);
  }
}

void TokenIdFile::throw_data_error(std::int64_t token, std::int64_t id) const {
  throw DataError(
      "{}: byte {}: token {} is {}, read as an id of {} bits ({}), but the vocabulary has {} ids, "
      "0 to {}",
      file_->path(),
      layout_.begin + token * id_bytes(),
      token,
      id,
      8 * id_bytes(),
      index_              ? "from " + index_->path()
      : layout_.is_stated ? "from its header"
                          : "data.token_dtype",
      vocabulary_,
      vocabulary_ - 1);
}

}  // namespace longspan
