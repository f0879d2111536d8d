#include "framework/data/png_image.h"

#include <png.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/option_text.h"
#include "framework/core/system_message.h"

namespace longspan {

namespace {

constexpr std::int64_t most_values = std::int64_t{1} << 24;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("{}: cannot be opened for reading: {}", path, system_message());
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) throw DataError("{}: is empty or cannot be read; a PNG file is needed", path);
  return bytes;
}

// Before it reads a chunk, libpng takes as much memory as the chunk says it has bytes. Throws
// DataError where one in front of the pixels has more than the file. What is no PNG file passes:
// libpng says so.
void require_chunks(const std::string& path, std::string_view bytes) {
  constexpr std::string_view signature = "\x89PNG\r\n\x1A\n";
  if (!bytes.starts_with(signature)) return;
  // A chunk is its length, its name, its bytes, and their checksum.
  constexpr std::size_t word = 4;
  for (std::size_t at = signature.size(); at + 2 * word <= bytes.size();) {
    const std::size_t there = bytes.size() - at - 2 * word;
    std::size_t length = 0;
    for (const char byte : bytes.substr(at, word))
      length = 256 * length + static_cast<unsigned char>(byte);
    if (bytes.substr(at + word, word) == "IDAT") return;
    if (length > there)
      throw DataError(
          "{}: cannot be read as a PNG file: a chunk says it has {} bytes, {} are there",
          path,
          length,
          there);
    at += length + 3 * word;
  }
}

// What libpng holds of one image.
class Reader {
 public:
  Reader(const std::string& path, const std::string& bytes) : path_(path) {
    require_chunks(path, bytes);
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) == 0) refuse();
    const bool has_colour = (image_.format & PNG_FORMAT_FLAG_COLOR) != 0;
    shape_ = {image_.height, image_.width, has_colour ? 3 : 1};
    if (shape_.height * shape_.width > most_values / shape_.channels)
      throw DataError("{}: is an image of {} values; at most {} are possible",
                      path,
                      to_string(shape_),
                      most_values);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const ImageShape& shape() const { return shape_; }
  std::vector<std::uint8_t> values() {
    image_.format = shape_.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    std::vector<std::uint8_t> values(static_cast<std::size_t>(shape_.values()));
    const png_color black = {0, 0, 0};
    if (png_image_finish_read(&image_, &black, values.data(), 0, nullptr) == 0) refuse();
    return values;
  }

 private:
  struct Free {
    void operator()(png_image* image) const { png_image_free(image); }
  };
  [[noreturn]] void refuse() const {
    throw DataError("{}: cannot be read as a PNG file: {}", path_, shortened(image_.message));
  }

  std::string path_;
  png_image image_ = {};
  std::unique_ptr<png_image, Free> free_{&image_};  // where the constructor throws too
  ImageShape shape_;
};

}  // namespace

std::string to_string(const ImageShape& shape) {
  return fmt::format("{} x {} x {}", shape.height, shape.width, shape.channels);
}

PngImage read_png(const std::string& path) {
  const std::string bytes = bytes_of(path);
  Reader reader(path, bytes);
  return {reader.shape(), reader.values()};
}

std::string png_of(const PngImage& image) {
  png_image written = {};
  written.version = PNG_IMAGE_VERSION;
  written.width = static_cast<png_uint_32>(image.shape.width);
  written.height = static_cast<png_uint_32>(image.shape.height);
  written.format = image.shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  require(std::ssize(image.values) == image.shape.values(), "an image without all of its values");
  png_alloc_size_t bytes = 0;
  const auto write_to = [&](void* memory) {
    if (png_image_write_to_memory(&written, memory, &bytes, 0, image.values.data(), 0, nullptr) ==
        0)
      throw Failure("an image of {} cannot be made a PNG file: {}",
                    to_string(image.shape),
                    shortened(written.message));
  };
  write_to(nullptr);  // says how long it is
  std::string file(bytes, '\0');
  write_to(file.data());
  file.resize(bytes);
  return file;
}

ImageShape png_shape(const std::string& path) {
  const std::string bytes = bytes_of(path);
  const ImageShape shape = Reader(path, bytes).shape();
  // The last chunk: no bytes, its name, and their checksum.
  constexpr std::string_view ending("\0\0\0\0IEND\xAE\x42\x60\x82", 12);
  if (bytes.find(ending) == std::string::npos)
    throw DataError("{}: is cut off: {} bytes and no end of a PNG file", path, bytes.size());
  return shape;
}

}  // namespace longspan
