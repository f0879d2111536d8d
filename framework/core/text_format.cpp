#include "framework/core/text_format.h"

#include "framework/core/error.h"

namespace longspan {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic;
  std::size_t offset;
  std::string_view name;
  std::string_view hint;  // begins with a verb
};

// No text in UTF-8 begins so, but for two with so many letters that chance is no cause of them.
constexpr Format formats[] = {
    {"\x1f\x8b\x08"sv, 0, "data compressed by gzip", "decompress it with gzip -dc FILE > TEXT"},
    {"\x28\xb5\x2f\xfd"sv, 0, "data compressed by zstd", "decompress it with zstd -dc FILE > TEXT"},
    {"BZh"sv, 0, "data compressed by bzip2", "decompress it with bzip2 -dc FILE > TEXT"},
    {"\xfd"
     "7zXZ\0"sv,
     0,
     "data compressed by xz",
     "decompress it with xz -dc FILE > TEXT"},
    {"\x5d\0\0"sv, 0, "data compressed by lzma", "decompress it with xz -dc FILE > TEXT"},
    {"LZIP\1"sv, 0, "data compressed by lzip", "decompress it with lzip -dc FILE > TEXT"},
    {"\x04\x22\x4d\x18"sv, 0, "data compressed by lz4", "decompress it with lz4 -dc FILE > TEXT"},
    {"\x02\x21\x4c\x18"sv, 0, "data compressed by lz4", "decompress it with lz4 -dc FILE > TEXT"},
    {"\x1f\x9d"sv, 0, "data compressed by compress", "decompress it with gzip -dc FILE > TEXT"},
    {"\x89LZO\0"sv, 0, "data compressed by lzop", "decompress it with lzop -dc FILE > TEXT"},
    {"\xff\x06\0\0sNaPpY"sv, 0, "data compressed by Snappy", "decompress it with snzip -dc"},
    {"PK\3\4"sv, 0, "a zip archive", "extract it with unzip FILE"},
    {"PK\5\6"sv, 0, "an empty zip archive", "name another file"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive", "extract it with 7z x FILE"},
    {"Rar!\x1a\x07"sv, 0, "a rar archive", "extract it with unrar x FILE"},
    {"ustar"sv, 257, "a tar archive", "extract it with tar -xf FILE"},
    {"%PDF-"sv, 0, "a PDF document", "extract its text with pdftotext FILE TEXT"},
    {"PAR1\x15"sv, 0, "a Parquet file", "write its column of text as JSON lines"},
    {"ARROW1\0\0"sv, 0, "an Arrow file", "write its column of text as JSON lines"},
    {"\x93NUMPY"sv, 0, "an array of NumPy", "write its text, or set data.format to tokens"},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file", "write its text to a file of its own"},
    {"\xff\xfe\0\0"sv, 0, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {"\0\0\xfe\xff"sv, 0, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {"\xff\xfe"sv, 0, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
    {"\xfe\xff"sv, 0, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
};

bool is_of(std::string_view beginning, const Format& format) {
  if (beginning.size() < format.offset) return false;
  if (!beginning.substr(format.offset).starts_with(format.magic)) return false;
  // The digit of the block size, and the number pi or that of the end.
  if (format.magic == "BZh"sv) {
    const std::string_view block = beginning.size() < 4 ? ""sv : beginning.substr(4);
    return block.starts_with("\x31\x41\x59\x26\x53\x59"sv) ||
           block.starts_with("\x17\x72\x45\x38\x50\x90"sv);
  }
  return true;
}

}  // namespace

std::size_t byte_order_mark(std::string_view beginning, std::string_view place) {
  for (const Format& format : formats)
    if (is_of(beginning, format))
      throw DataError("{}: expected text in UTF-8, found {}; {}", place, format.name, format.hint);
  return beginning.starts_with("\xef\xbb\xbf"sv) ? 3 : 0;
}

}  // namespace longspan
