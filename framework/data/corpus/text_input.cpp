#include "framework/data/corpus/text_input.h"

#include <algorithm>
#include <utility>

#include "framework/core/text_format.h"
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

}  // namespace longspan
