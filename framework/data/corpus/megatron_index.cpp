#include "framework/data/corpus/megatron_index.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/file_values.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// Header: magic, version (u64), dtype (u8), number of sequences (u64), entries of the document
// table (u64). Tables: sequence lengths in ids (i32), sequence offsets in bytes (i64), and the
// first sequence of each document (i64). The last entry of the document table is the number of
// sequences.
constexpr std::int64_t index_header_bytes = 9 + 8 + 1 + 8 + 8;

struct IndexedDtype {
  const char* name;
  std::int64_t bytes;
  bool is_signed;
};
// Indexed by the dtype code of the header. Floating-point ids are unsupported.
constexpr std::array<std::optional<IndexedDtype>, 11> indexed_dtypes = {
    std::nullopt,
    IndexedDtype{"uint8", 1, false},
    IndexedDtype{"int8", 1, true},
    IndexedDtype{"int16", 2, true},
    IndexedDtype{"int32", 4, true},
    IndexedDtype{"int64", 8, true},
    std::nullopt,
    std::nullopt,
    IndexedDtype{"uint16", 2, false},
    IndexedDtype{"uint32", 4, false},
    IndexedDtype{"uint64", 8, false}};

template <typename T>
T value_at(const InputFile& file, std::int64_t offset) {
  T value = 0;
  for_each_value<T>(file, offset, 1, [&value](std::int64_t, T found) { value = found; });
  return value;
}

[[noreturn]] void throw_bad_index(const InputFile& file, const std::string& problem) {
  throw DataError("{}: {}; delete it to read the ids without documents, or rewrite both files",
                  file.path(),
                  problem);
}

}  // namespace

std::optional<MegatronIndex> MegatronIndex::next_to(const InputFile& ids) {
  const fs::path path(ids.path());
  const fs::path index = fs::path(path).replace_extension(".idx");
  std::error_code unused;
  if (path.extension() != ".bin" || !fs::is_regular_file(index, unused)) return std::nullopt;
  auto file = std::make_shared<const InputFile>(index.string());
  if (file->size() < std::ssize(megatron_index_magic) ||
      read_bytes(*file, 0, std::ssize(megatron_index_magic)) != megatron_index_magic)
    throw_bad_index(*file, fmt::format("expected a Megatron-LM index for {}", ids.path()));
  return MegatronIndex(std::move(file), ids);
}

MegatronIndex::MegatronIndex(std::shared_ptr<const InputFile> file, const InputFile& ids)
    : file_(std::move(file)) {
  read_header();
  read_sequences(ids);
  read_documents();
}

void MegatronIndex::read_header() {
  if (file_->size() < index_header_bytes)
    throw_bad_index(
        *file_,
        fmt::format("expected at least {} bytes, found {}", index_header_bytes, file_->size()));
  const auto version = value_at<std::uint64_t>(*file_, 9);
  if (version != 1) throw_bad_index(*file_, fmt::format("expected version 1, found {}", version));
  const auto code = value_at<std::uint8_t>(*file_, 17);
  const auto dtype = code < indexed_dtypes.size() ? indexed_dtypes[code] : std::nullopt;
  if (!dtype)
    throw_bad_index(*file_, fmt::format("expected an integer dtype, found code {}", code));
  id_bytes_ = dtype->bytes;
  is_signed_ = dtype->is_signed;
  const auto sequences = value_at<std::uint64_t>(*file_, 18);
  const auto entries = value_at<std::uint64_t>(*file_, 26);
  // A sequence takes 12 bytes, an entry 8. Megatron-LM may append a byte per sequence.
  const auto size = static_cast<std::uint64_t>(file_->size() - index_header_bytes);
  const bool fits = sequences <= size / 12 && entries <= size / 8 && entries >= 2;
  const std::uint64_t tables = fits ? 12 * sequences + 8 * entries : 0;
  if (!fits || (size != tables && size != tables + sequences))
    throw_bad_index(
        *file_,
        fmt::format("{} sequences and {} documents of its header do not fit its {} bytes",
                    sequences,
                    entries == 0 ? 0 : entries - 1,
                    file_->size()));
  sequences_ = static_cast<std::int64_t>(sequences);
  entries_ = static_cast<std::int64_t>(entries);
}

void MegatronIndex::read_sequences(const InputFile& ids) {
  std::vector<std::int32_t> lengths;
  constexpr std::int64_t at_once = 4096;
  for (std::int64_t first = 0; first < sequences_; first += at_once) {
    const std::int64_t count = std::min(at_once, sequences_ - first);
    lengths.resize(static_cast<std::size_t>(count));
    for_each_value<std::int32_t>(
        *file_, index_header_bytes + 4 * first, count, [&](std::int64_t i, std::int32_t length) {
          lengths[static_cast<std::size_t>(i)] = length;
        });
    for_each_value<std::int64_t>(
        *file_,
        index_header_bytes + 4 * sequences_ + 8 * first,
        count,
        [&](std::int64_t i, std::int64_t begin) {
          const std::int32_t length = lengths[static_cast<std::size_t>(i)];
          if (length < 0 || begin != tokens_ * id_bytes_)
            throw_bad_index(
                *file_,
                fmt::format("sequence {} of {} ids: expected byte {} as its offset, found {}",
                            first + i,
                            length,
                            tokens_ * id_bytes_,
                            begin));
          if (length > ids.size() / id_bytes_ - tokens_)
            throw_bad_index(
                *file_,
                fmt::format("sequence {} of {} ids of {} bits at byte {} exceeds {} of {} "
                            "bytes",
                            first + i,
                            length,
                            8 * id_bytes_,
                            begin,
                            ids.path(),
                            ids.size()));
          tokens_ += length;
          has_empty_sequences_ = has_empty_sequences_ || length == 0;
        });
  }
  if (tokens_ * id_bytes_ != ids.size())
    throw_bad_index(
        *file_,
        fmt::format("its sequences have {} ids of {} bits ({} bytes), but {} has {} bytes",
                    tokens_,
                    8 * id_bytes_,
                    tokens_ * id_bytes_,
                    ids.path(),
                    ids.size()));
}

void MegatronIndex::read_documents() {
  std::int64_t before = 0, empty = 0;  // empty documents
  for_each_value<std::int64_t>(
      *file_,
      index_header_bytes + 12 * sequences_,
      entries_,
      [&](std::int64_t entry, std::int64_t sequence) {
        const bool is_end = entry == 0 || entry + 1 == entries_;
        const std::int64_t end = entry == 0 ? 0 : sequences_;
        if (sequence < before || sequence > sequences_ || (is_end && sequence != end))
          throw_bad_index(
              *file_,
              fmt::format("document {} begins at sequence {} of {}, after a document that begins "
                          "at {}",
                          entry,
                          sequence,
                          sequences_,
                          before));
        empty += entry > 0 && sequence == before ? 1 : 0;
        before = sequence;
      });
  documents_ = entries_ - 1;
  if (empty == 0 && !has_empty_sequences_) return;
  std::vector<std::int64_t> filled;
  for (std::int64_t entry = 0; entry < entries_; ++entry)
    if (entry + 1 == entries_ || begin_of(entry) < begin_of(entry + 1)) filled.push_back(entry);
  documents_ = std::ssize(filled) - 1;
  filled_ = std::make_shared<const std::vector<std::int64_t>>(std::move(filled));
}

std::int64_t MegatronIndex::begin_of(std::int64_t entry) const {
  const auto sequence =
      value_at<std::int64_t>(*file_, index_header_bytes + 12 * sequences_ + 8 * entry);
  if (sequence < 0 || sequence >= sequences_) return tokens_;
  return value_at<std::int64_t>(*file_, index_header_bytes + 4 * sequences_ + 8 * sequence) /
         id_bytes_;
}

std::int64_t MegatronIndex::document_begin(std::int64_t document) const {
  require(document >= 0 && document <= documents_,
          "document {} is out of range ({} documents)",
          document,
          documents_);
  return begin_of(filled_ ? (*filled_)[static_cast<std::size_t>(document)] : document);
}

}  // namespace longspan
