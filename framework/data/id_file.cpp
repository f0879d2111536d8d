#include "framework/data/id_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/file_values.h"

namespace longspan {

namespace {

std::int64_t id_bytes_of(IdBits bits, std::int64_t vocabulary) {
  if (bits == IdBits::fitting) return vocabulary <= 65536 ? 2 : 4;
  return bits == IdBits::sixteen ? 2 : 4;
}

}  // namespace

IdFile::IdFile(std::shared_ptr<const InputFile> file, std::int64_t vocabulary, IdBits bits)
    : file_(std::move(file)),
      vocabulary_(vocabulary),
      id_bytes_(id_bytes_of(bits, vocabulary)),
      tokens_(file_->size() / id_bytes_) {
  require(vocabulary_ >= 1, "{}: a vocabulary of {} ids", file_->path(), vocabulary_);
  if (file_->size() % id_bytes_ != 0)
    throw DataError(
        "{}: has {} bytes, which are no whole number of ids of {} bits; wanted a file of nothing "
        "but ids (data.token_bits)",
        file_->path(),
        file_->size(),
        8 * id_bytes_);
  look_at_places(bits);
}

void IdFile::look_at_places(IdBits bits) const {
  constexpr std::int64_t places = 256;
  constexpr std::int64_t most = 2048;  // ids of a place; even, so that halves stay apart
  const std::int64_t step = std::max(most, tokens_ / places / 2 * 2);
  std::array<std::int64_t, most> ids;
  std::array<std::int64_t, 2> nonzero = {};  // at even and at odd tokens
  for (std::int64_t token = 0; token < tokens_; token += step) {
    const auto here =
        std::span(ids).first(static_cast<std::size_t>(std::min(most, tokens_ - token)));
    read(token, here);
    for (std::size_t i = 0; i < here.size(); ++i) nonzero[i % 2] += here[i] != 0 ? 1 : 0;
  }
  if (bits == IdBits::fitting && id_bytes_ == 2 && tokens_ >= 4 && nonzero[0] > 0 &&
      nonzero[1] == 0)
    throw DataError(
        "{}: every second id of 16 bits is 0, as in a file of 32 bits; set data.token_bits to 32, "
        "or to 16 where the ids are so",
        file_->path());
}

void IdFile::read(std::int64_t token, std::span<std::int64_t> out) const {
  const auto put = [&](std::int64_t i, std::int64_t id) {
    if (id >= vocabulary_) refuse(token + i, id);
    out[static_cast<std::size_t>(i)] = id;
  };
  if (id_bytes_ == 2)
    for_each_value<std::uint16_t>(*file_, token * 2, std::ssize(out), put);
  else
    for_each_value<std::uint32_t>(*file_, token * 4, std::ssize(out), put);
}

void IdFile::refuse(std::int64_t token, std::int64_t id) const {
  throw DataError(
      "{}: byte {}: token {} is {}, read as an id of {} bits (data.token_bits); the vocabulary has "
      "{} ids, 0 to {}",
      file_->path(),
      token * id_bytes_,
      token,
      id,
      8 * id_bytes_,
      vocabulary_,
      vocabulary_ - 1);
}

}  // namespace longspan
