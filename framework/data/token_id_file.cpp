#include "framework/data/token_id_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/core/utf8.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/megatron_index.h"
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

void for_each_id(std::string_view text,
                 std::int64_t vocabulary,
                 std::string_view place,
                 const std::function<void(std::int64_t, std::size_t, std::size_t)>& sink) {
  constexpr std::string_view blanks = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int64_t id = -1;
    const auto [after, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool is_number = error == std::errc() && after == word.data() + word.size();
    if (!is_number || id < 0 || id >= vocabulary)
      throw DataError(
          "{}: byte {}: expected a token id from 0 to {}, found {}; set data.tokenizer.type to "
          "read text, as none reads ids with blanks between them",
          place,
          at,
          vocabulary - 1,
          quote(word));
    sink(id, at, end);
    at = text.find_first_not_of(blanks, end);
  }
}

std::vector<std::int64_t> parse_token_ids(std::string_view text,
                                          std::int64_t vocabulary,
                                          std::string_view place) {
  std::vector<std::int64_t> ids;
  for_each_id(text, vocabulary, place, [&ids](std::int64_t id, std::size_t, std::size_t) {
    ids.push_back(id);
  });
  return ids;
}

std::string format_token_ids(std::span<const std::int64_t> ids) {
  std::string text;
  for (const std::int64_t id : ids) text += fmt::format(" {}", id);
  return text;
}

namespace {

using namespace std::string_view_literals;

constexpr std::string_view npy_magic = "\x93NUMPY"sv;
constexpr std::int64_t inspected_bytes = 4096;  // of a file, to detect its format

std::int64_t id_bytes_of(TokenDType bits) {
  return bits == TokenDType::sixteen ? 2 : bits == TokenDType::thirty_two ? 4 : 8;
}

struct ForeignFormat {
  std::string_view magic;
  const char* found;
  const char* hint;
};
constexpr ForeignFormat foreign_formats[] = {
    {"PK\x03\x04"sv,
     "an archive of numpy.savez or torch.save",
     "save one array with numpy.save, or its bytes with its method tofile"},
    {megatron_index_magic, "a Megatron-LM index", "set the path to the .bin file next to it"},
    {"TNTIDX\0\0"sv,
     "a Megatron-LM index in its oldest format",
     "rewrite the ids with --dataset-impl mmap"},
    {"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", "save its array with numpy.save"},
    {"PAR1"sv, "a Parquet file", "save its ids with numpy.save"},
    {"ARROW1\0\0"sv, "an Arrow file", "save its ids with numpy.save"},
    {"\x28\xB5\x2F\xFD"sv, "a zstd-compressed file", "decompress it with zstd -d"},
    {"\xFD\x37zXZ\0"sv, "an xz-compressed file", "decompress it with xz -d"},
    {"\x04\x22\x4D\x18"sv, "an lz4-compressed file", "decompress it with lz4 -d"}};

// RFC 1952. Also checks deflate, flags, level and system, because two bytes may be an id.
bool is_gzip(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  return bytes.size() >= 18 && bytes.starts_with("\x1F\x8B\x08"sv) && byte(3) < 32 &&
         (byte(8) == 0 || byte(8) == 2 || byte(8) == 4) && (byte(9) <= 13 || byte(9) == 255);
}

// A file begins with the length of the JSON header, and the header.
bool is_safetensors(std::string_view bytes, std::int64_t size) {
  if (bytes.size() < 10 || bytes.substr(8, 2) != "{\"") return false;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length * 256 + static_cast<unsigned char>(bytes[i]);
  return length + 8 <= static_cast<std::uint64_t>(size);
}

// Only complete printable characters, which token ids never consist of.
bool is_text(std::string_view bytes) {
  constexpr std::size_t least = 64;
  if (bytes.size() < least) return false;
  while (!bytes.empty()) {
    const Utf8Character character = decode_utf8(bytes);
    if (character.status == Utf8Status::incomplete) return true;
    const char32_t letter = character.code_point;
    const bool is_control = letter < 0x20 && letter != '\n' && letter != '\r' && letter != '\t';
    if (character.status != Utf8Status::valid || is_control || letter == 0x7F) return false;
    bytes.remove_prefix(static_cast<std::size_t>(character.width));
  }
  return true;
}

[[noreturn]] void throw_unsupported_format(const InputFile& file,
                                           std::string_view found,
                                           std::string_view hint) {
  throw DataError("{}: expected token ids, found {}; {}", file.path(), found, hint);
}

void require_ids(const InputFile& file, std::string_view bytes) {
  for (const ForeignFormat& format : foreign_formats)
    if (bytes.starts_with(format.magic)) throw_unsupported_format(file, format.found, format.hint);
  if (is_gzip(bytes))
    throw_unsupported_format(file, "a gzip-compressed file", "decompress it with gunzip");
  if (is_safetensors(bytes, file.size()))
    throw_unsupported_format(file, "a safetensors file", "save its tensor of ids with numpy.save");
  if (is_text(bytes)) throw_unsupported_format(file, "text", "set data.format to text");
}

std::int64_t little_endian(std::string_view bytes) {
  std::int64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value * 256 + static_cast<unsigned char>(bytes[i]);
  return value;
}

// Returns the text between a key of the .npy header, a Python dict literal, and `end`.
std::string_view value_of(std::string_view header, std::string_view key, char end) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = header.find_first_not_of(": ", at + key.size());
  if (begin == std::string_view::npos) return {};
  return header.substr(begin, header.find(end, begin) - begin);
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
IdLayout npy_layout(const InputFile& file, std::string_view bytes) {
  const auto refuse = [&](const std::string& found) {
    throw DataError(
        "{}: expected a one-dimensional integer array, found {}; save it with numpy.save(FILE, "
        "ids.reshape(-1).astype(numpy.uint32))",
        file.path(),
        found);
  };
  const bool is_long = bytes.size() > 6 && bytes[6] != 1;  // version 1 has a 2-byte length
  const std::size_t begin = is_long ? 12 : 10;
  if (bytes.size() < begin) refuse("a truncated header");
  const std::int64_t length = little_endian(bytes.substr(8, begin - 8));
  const std::int64_t data = static_cast<std::int64_t>(begin) + length;
  if (data > std::ssize(bytes)) refuse(fmt::format("a header of {} bytes", length));
  const std::string_view header = bytes.substr(begin, static_cast<std::size_t>(length));
  const std::string_view dtype = value_of(header, "'descr'", ',');
  const std::string_view shape = value_of(header, "'shape'", ')');
  const bool is_known = dtype.size() == 5 && dtype.front() == '\'' && dtype.back() == '\'';
  const char order = is_known ? dtype[1] : '?', kind = is_known ? dtype[2] : '?';
  const std::int64_t id_bytes = is_known ? dtype[3] - '0' : 0;
  const bool is_integer = kind == 'i' || kind == 'u';
  const bool has_width = id_bytes == 1 || id_bytes == 2 || id_bytes == 4 || id_bytes == 8;
  if (!is_integer || !has_width || (order != '<' && id_bytes > 1))
    refuse("dtype " + std::string(dtype));
  std::int64_t count = -1;
  const char* const end = shape.data() + shape.size();
  const auto [after, error] = shape.empty()
                                  ? std::from_chars_result{end, std::errc::invalid_argument}
                                  : std::from_chars(shape.data() + 1, end, count);
  const bool is_line = error == std::errc() && count >= 0 && std::string_view(after, end) == ",";
  if (!is_line) refuse("shape " + std::string(shape) + ")");
  if (count > file.size() || data + count * id_bytes != file.size())
    throw DataError(
        "{}: expected {} ids of {} bits, as in the header, found {} bytes; check whether the file "
        "is truncated",
        file.path(),
        count,
        8 * id_bytes,
        file.size());
  return {.begin = data, .id_bytes = id_bytes, .is_signed = kind == 'i', .is_stated = true};
}

}  // namespace

void require_id_bits(const InputFile& file,
                     TokenDType bits,
                     std::int64_t stated_bytes,
                     const char* by) {
  if (bits == TokenDType::fitting || id_bytes_of(bits) == stated_bytes) return;
  throw DataError("{}: data.token_dtype is uint{}, but {} has ids of {} bits; remove the key",
                  file.path(),
                  8 * id_bytes_of(bits),
                  by,
                  8 * stated_bytes);
}

IdLayout id_layout_of(const InputFile& file, std::int64_t vocabulary, TokenDType bits) {
  const std::string bytes = read_bytes(file, 0, std::min(inspected_bytes, file.size()));
  if (bytes.starts_with(npy_magic)) {
    const IdLayout layout = npy_layout(file, bytes);
    require_id_bits(file, bits, layout.id_bytes, "its header");
    return layout;
  }
  require_ids(file, bytes);
  if (bits == TokenDType::fitting) return {.id_bytes = vocabulary <= 65536 ? 2 : 4};
  return {.id_bytes = id_bytes_of(bits)};
}

}  // namespace longspan
