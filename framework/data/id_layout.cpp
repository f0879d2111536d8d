#include "framework/data/id_layout.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/core/utf8.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/megatron_index.h"

namespace longspan {
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
