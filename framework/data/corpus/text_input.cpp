#include "framework/data/corpus/text_input.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/corpus/decompressed_file.h"

namespace longspan {
namespace {

void drop_mark(InputFile& file) {
  std::string beginning(
      static_cast<std::size_t>(std::min<std::int64_t>(file.size(), text_format_bytes)), '\0');
  file.copy(0, beginning);
  file.drop_first(static_cast<std::int64_t>(byte_order_mark(beginning, file.path())));
}

std::shared_ptr<const InputFile> decompressed(InputFile file, UnpackedContent content) {
  const auto compressed = std::make_shared<const InputFile>(std::move(file));
  DecompressedFile reader(compressed, std::size_t{1} << 20, content);
  return std::make_shared<const InputFile>(ConfigPath(compressed->path()),
                                           [&](std::span<char> out) { return reader.read(out); });
}

using namespace std::string_view_literals;

struct Format {
  std::string_view magic;
  std::size_t offset;
  std::string_view name;
  std::string_view hint;  // an imperative
};

// Raw binary data may start with any short magic by chance: see is_of.
constexpr Format formats[] = {
    {"\x1f\x8b\x08"sv, 0, "gzip-compressed data", "decompress it with gzip -dc FILE > TEXT"},
    {"\x28\xb5\x2f\xfd"sv, 0, "zstd-compressed data", "decompress it with zstd -dc FILE > TEXT"},
    {"BZh"sv, 0, "bzip2-compressed data", "decompress it with bzip2 -dc FILE > TEXT"},
    {"\xfd"
     "7zXZ\0"sv,
     0,
     "xz-compressed data",
     "decompress it with xz -dc FILE > TEXT"},
    {"\x5d\0\0"sv, 0, "lzma-compressed data", "decompress it with xz -dc FILE > TEXT"},
    {"LZIP\1"sv, 0, "lzip-compressed data", "decompress it with lzip -dc FILE > TEXT"},
    {"\x04\x22\x4d\x18"sv, 0, "lz4-compressed data", "decompress it with lz4 -dc FILE > TEXT"},
    {"\x02\x21\x4c\x18"sv, 0, "lz4-compressed data", "decompress it with lz4 -dc FILE > TEXT"},
    {"\x1f\x9d"sv, 0, "data compressed with compress", "decompress it with gzip -dc FILE > TEXT"},
    {"\x89LZO\0"sv, 0, "lzop-compressed data", "decompress it with lzop -dc FILE > TEXT"},
    {"\xff\x06\0\0sNaPpY"sv, 0, "Snappy-compressed data", "decompress it with snzip -dc"},
    {"PK\3\4"sv, 0, "a zip archive", "extract it with unzip FILE"},
    {"PK\5\6"sv, 0, "an empty zip archive", "name another file"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive", "extract it with 7z x FILE"},
    {"Rar!\x1a\x07"sv, 0, "a rar archive", "extract it with unrar x FILE"},
    {"ustar\0"sv, 257, "a tar archive", "extract it with tar -xf FILE"},
    {"ustar  \0"sv, 257, "a tar archive", "extract it with tar -xf FILE"},
    {"%PDF-"sv, 0, "a PDF document", "extract its text with pdftotext FILE TEXT"},
    {"PAR1\x15"sv, 0, "a Parquet file", "convert its text column to JSON lines"},
    {"ARROW1\0\0"sv, 0, "an Arrow file", "convert its text column to JSON lines"},
    {"\x93NUMPY"sv, 0, "a NumPy array", "extract its text, or set data.format to tokens"},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file", "extract its text to a file"},
    {"\xff\xfe\0\0"sv, 0, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {"\0\0\xfe\xff"sv, 0, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {"\xff\xfe"sv, 0, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
    {"\xfe\xff"sv, 0, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
};

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::uint64_t read_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | byte_at(bytes, i);
  return value;
}

// An LZMA header: a dictionary size of 2^n or 3 * 2^n bytes, a possibly unknown length, and the
// coder's first byte, which is 0.
bool is_lzma(std::string_view bytes) {
  if (bytes.size() < 14) return false;
  const std::uint64_t dictionary = read_little_endian(bytes.substr(1, 4));
  const std::uint64_t length = read_little_endian(bytes.substr(5, 8));
  const bool has_size =
      dictionary >= 4096 &&
      (std::has_single_bit(dictionary) ||
       (dictionary % 3 == 0 && std::has_single_bit(dictionary / 3)) || dictionary == 0xFFFFFFFF);
  const bool has_length =
      length == std::numeric_limits<std::uint64_t>::max() || length < std::uint64_t{1} << 48;
  return has_size && has_length && byte_at(bytes, 13) == 0;
}

// A compress(1) header: 9 to 16 bits, reserved flags zero, and a first code that is a byte.
bool is_compress(std::string_view bytes) {
  if (bytes.size() < 4) return false;
  const unsigned flags = byte_at(bytes, 2), bits = flags & 0x1F;
  return (flags & 0x60) == 0 && bits >= 9 && bits <= 16 &&
         (bytes.size() < 5 || (byte_at(bytes, 4) & 1) == 0);
}

// Checks the text after the byte order mark: plausible characters and no unpaired surrogate.
bool is_utf16(std::string_view bytes, bool is_little) {
  bool is_within = false;  // within a surrogate pair
  for (std::size_t at = 2; at + 1 < bytes.size(); at += 2) {
    const unsigned low = byte_at(bytes, is_little ? at : at + 1);
    const unsigned unit = byte_at(bytes, is_little ? at + 1 : at) << 8 | low;
    const bool is_later = unit >= 0xDC00 && unit <= 0xDFFF;
    const bool is_control = unit < 0x20 && !(unit >= 9 && unit <= 13);
    if (is_later != is_within || is_control || unit >= 0xFFFE) return false;
    is_within = unit >= 0xD800 && unit <= 0xDBFF;
  }
  return bytes.size() >= 4;
}

bool is_of(std::string_view beginning, const Format& format) {
  if (beginning.size() < format.offset) return false;
  if (!beginning.substr(format.offset).starts_with(format.magic)) return false;
  // The block size digit, followed by the magic of a block (pi) or of the end.
  if (format.magic == "BZh"sv) {
    const std::string_view block = beginning.size() < 4 ? ""sv : beginning.substr(4);
    return block.starts_with("\x31\x41\x59\x26\x53\x59"sv) ||
           block.starts_with("\x17\x72\x45\x38\x50\x90"sv);
  }
  if (format.magic == "\x5d\0\0"sv) return is_lzma(beginning);
  if (format.magic == "\x1f\x9d"sv) return is_compress(beginning);
  if (format.magic == "\xff\xfe"sv) return is_utf16(beginning, true);
  if (format.magic == "\xfe\xff"sv) return is_utf16(beginning, false);
  return true;
}

}  // namespace

std::shared_ptr<const InputFile> open_text(const ConfigPath& path) {
  InputFile file(path);
  if (detect_compression(file) == Compression::none) drop_mark(file);
  return std::make_shared<const InputFile>(std::move(file));
}

std::shared_ptr<const InputFile> plain_text_of(InputFile file) {
  if (detect_compression(file) != Compression::none)
    return decompressed(std::move(file), UnpackedContent::text);
  drop_mark(file);
  return std::make_shared<const InputFile>(std::move(file));
}

std::shared_ptr<const InputFile> open_plain_text(const ConfigPath& path) {
  return plain_text_of(InputFile(path));
}

std::shared_ptr<const InputFile> open_decompressed(const ConfigPath& path) {
  InputFile file(path);
  if (detect_compression(file) != Compression::none)
    return decompressed(std::move(file), UnpackedContent::bytes);
  return std::make_shared<const InputFile>(std::move(file));
}

std::size_t byte_order_mark(std::string_view beginning, std::string_view place) {
  for (const Format& format : formats)
    if (is_of(beginning, format))
      throw DataError("{}: expected text in UTF-8, found {}; {}", place, format.name, format.hint);
  return beginning.starts_with("\xef\xbb\xbf"sv) ? 3 : 0;
}

}  // namespace longspan
