#include "framework/data/corpus/decompressed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "framework/core/error.h"
#include "framework/data/corpus/text_input.h"
#include "tests/data/packed_text.h"
#include "tests/data/temporary_file.h"

namespace longspan::decompressed_file_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string unpacked(const std::string& path, std::size_t block, std::size_t at_once) {
  DecompressedFile file(std::make_shared<const InputFile>(path), block);
  std::string text;
  std::string part(at_once, '\0');
  while (true) {
    const std::size_t read = file.read(part);
    text += part.substr(0, read);
    if (read < at_once) return text;
  }
}

// Incompressible bytes, followed by highly compressible bytes.
std::string some_text(std::size_t size) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < size / 2) text.push_back(static_cast<char>(random()));
  text.resize(size, 'a');
  return text;
}

TEST(DecompressedFile, ReturnsEqualBytesForAnyBufferSize) {
  const std::string text = some_text(3000);
  const std::string later = "and what came later\n";
  // Several gzip members and zstd frames, some empty, and a skippable frame.
  const std::string passed_over = std::string("\x50\x2a\x4d\x18\x03\x00\x00\x00", 8) + "abc";
  for (const std::string& content : {text + later,
                                     gzip_of(text) + gzip_of("") + gzip_of(later),
                                     zstd_of(text) + passed_over + zstd_of(later, false),
                                     passed_over + zstd_of(text + later) + zstd_of("")}) {
    const TemporaryFile file(content);
    for (const std::size_t block : {1, 2, 3, 7, 64, 5000})
      for (const std::size_t at_once : {1, 5, 1000, 10000})
        ASSERT_EQ(unpacked(file.path(), block, at_once), text + later) << block << " " << at_once;
  }
}

TEST(DecompressedFile, SkipsToAnyByte) {
  const std::string text = some_text(100);
  for (const std::string& content : {text, gzip_of(text), zstd_of(text)}) {
    const TemporaryFile file(content);
    for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
      DecompressedFile reader(std::make_shared<const InputFile>(file.path()), 16);
      reader.skip(static_cast<std::int64_t>(skipped));
      std::string rest(text.size(), '\0');
      rest.resize(reader.read(rest));
      ASSERT_EQ(rest, text.substr(skipped));
    }
  }
}

TEST(DecompressedFile, DetectsTruncationAndFlippedBytes) {
  const std::string text = some_text(80);
  for (const std::string& good : {gzip_of(text), zstd_of(text)}) {
    for (std::size_t size = 1; size < good.size(); ++size) {
      const TemporaryFile file(good.substr(0, size));
      if (size < 4) continue;  // too short to detect the format
      EXPECT_EQ(message_of<DataError>([&] { unpacked(file.path(), 10, 100); }),
                file.path() + ": byte " + std::to_string(size) +
                    ": unexpected end of the compressed data");
    }
    for (std::size_t at = 4; at < good.size(); ++at) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      const TemporaryFile file(damaged);
      std::string text_of_it;
      const std::string message =
          message_of<DataError>([&] { text_of_it = unpacked(file.path(), 10, 100); });
      // The time and the system in a gzip header do not affect the text.
      if (message.empty()) {
        EXPECT_EQ(text_of_it, text) << at;
        EXPECT_LT(at, 10) << at;
      } else {
        EXPECT_THAT(message,
                    AnyOf(HasSubstr("is corrupt: "),
                          HasSubstr("unexpected end of the compressed data"),
                          HasSubstr("trailing data is not compressed")));
      }
    }
  }
}

TEST(DecompressedFile, DoesNotInterpretDecompressedBytes) {
  for (const std::string& bytes : {std::string("\x93NUMPY\1\0", 8),
                                   std::string("\x5d\0\0\0\1\0\0\0", 8),
                                   std::string("\xEF\xBB\xBF\0", 4)})
    for (const std::string& packed : {gzip_of(bytes), zstd_of(bytes)}) {
      const TemporaryFile file(packed);
      EXPECT_EQ(open_decompressed(file.path())->text(100), bytes);
    }
}

TEST(DecompressedFile, RejectsTrailingDataAndWrongExtensions) {
  for (const std::string& good : {gzip_of("abc"), zstd_of("abc")}) {
    const TemporaryFile file(good + "rest of it");
    EXPECT_THAT(message_of<DataError>([&] { unpacked(file.path(), 1000, 100); }),
                HasSubstr(": trailing data is not compressed"));
  }
  const TemporaryFile file("plain");
  for (const std::string end : {".gz", ".zst"}) {
    const std::string path = file.path() + end;
    std::filesystem::copy_file(file.path(), path);
    EXPECT_EQ(
        message_of<DataError>([&] { unpacked(path, 10, 10); }),
        path + ": byte 0: expected " + (end == ".gz" ? "gzip" : "zstd") + " data, as in its name");
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace longspan::decompressed_file_test
