// PNG files: unchanged, and with valid checksums, which random mutation would not produce.
#include <zlib.h>

#include "framework/data/examples/images.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

constexpr std::size_t signature_bytes = 8;
constexpr std::size_t word_bytes = 4;

std::size_t big_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (const char byte : bytes) value = value * 256 + static_cast<unsigned char>(byte);
  return value;
}

// Chunk: length of the data, name, data, checksum of name and data.
std::string with_checksums(std::string_view bytes) {
  std::string file(bytes);
  for (std::size_t at = signature_bytes; at + 3 * word_bytes <= file.size();) {
    const std::size_t length = big_endian(std::string_view(file).substr(at, word_bytes));
    if (length > file.size() - at - 3 * word_bytes) break;
    const auto* const checked = reinterpret_cast<const Bytef*>(file.data() + at + word_bytes);
    const auto sum = ::crc32(0, checked, static_cast<uInt>(length + word_bytes));
    at += 2 * word_bytes + length;
    for (std::size_t i = 0; i < word_bytes; ++i)
      file[at + i] = static_cast<char>(sum >> (8 * (word_bytes - 1 - i)));
    at += word_bytes;
  }
  return file;
}

void read_image(const std::string& path) {
  is_read([&] { png_shape(path); });
  is_read([&] {
    const PngImage image = read_png(path);
    expect(std::ssize(image.values) == image.shape.values(), "an image has not all of its values");
  });
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  read_image(folder.put("raw.png", bytes));
  read_image(folder.put("checked.png", with_checksums(bytes)));
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
