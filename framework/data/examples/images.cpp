#include "framework/data/examples/images.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/core/system.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {

namespace {

constexpr std::int64_t max_values = std::int64_t{1} << 24;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("{}: cannot be opened for reading: {}", path, errno_message());
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty())
    throw DataError("{}: expected a PNG file, found an empty or unreadable file", path);
  return bytes;
}

// libpng allocates the declared size of a chunk before it reads the chunk. Throws DataError where a
// chunk before the pixels declares more bytes than the file has. A file without a PNG signature
// passes, because libpng reports it.
void require_chunks(const std::string& path, std::string_view bytes) {
  constexpr std::string_view signature = "\x89PNG\r\n\x1A\n";
  if (!bytes.starts_with(signature)) return;
  // A chunk consists of its length, name, bytes and checksum.
  constexpr std::size_t word = 4;
  for (std::size_t at = signature.size(); at + 2 * word <= bytes.size();) {
    const std::size_t there = bytes.size() - at - 2 * word;
    std::size_t length = 0;
    for (const char byte : bytes.substr(at, word))
      length = 256 * length + static_cast<unsigned char>(byte);
    if (bytes.substr(at + word, word) == "IDAT") return;
    if (length > there)
      throw DataError("{}: cannot be read as a PNG file: expected a chunk of {} bytes, found {}",
                      path,
                      length,
                      there);
    at += length + 3 * word;
  }
}

// Image as stored. The simplified API of libpng would convert the values to sRGB, based on gAMA,
// sRGB, iCCP and cHRM chunks, and would interpret 16-bit values as linear.
class Reader {
 public:
  Reader(const std::string& path, const std::string& bytes) : path_(path), rest_(bytes) {
    require_chunks(path, bytes);
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    struct Free {
      Reader* reader;
      ~Free() {
        if (reader != nullptr) reader->free();
      }
    } free_on_error{this};
    if (info_ == nullptr) throw Failure("{}: libpng is out of memory", path);
    read_header();
    const bool has_color = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    shape_ = {
        png_get_image_height(png_, info_), png_get_image_width(png_, info_), has_color ? 3 : 1};
    if (shape_.height * shape_.width > max_values / shape_.channels)
      throw DataError(
          "{}: image of {} values exceeds the maximum of {}", path, to_string(shape_), max_values);
    free_on_error.reader = nullptr;
  }
  ~Reader() { free(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const ImageShape& shape() const { return shape_; }
  std::vector<std::uint8_t> values() {
    expand();
    const std::size_t bytes = png_get_rowbytes(png_, info_);
    const auto height = static_cast<std::size_t>(shape_.height);
    std::vector<png_byte> stored(bytes * height);
    std::vector<png_bytep> rows(height);
    for (std::size_t row = 0; row < height; ++row) rows[row] = stored.data() + row * bytes;
    read_rows(rows.data());
    return on_black(stored);
  }

 private:
  // libpng exits by longjmp, so that these three functions must have no object to destroy.
  void read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) refuse();
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
  }
  // Expands palettes to colors, 1, 2 and 4 bits to 8, and transparency to alpha.
  void expand() {
    if (setjmp(png_jmpbuf(png_)) != 0) refuse();
    png_set_expand(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }
  void read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) refuse();
    png_read_image(png_, rows);
  }

  // Returns [height, width, channels] of 8 bits, rounded, each value multiplied by its alpha.
  std::vector<std::uint8_t> on_black(const std::vector<png_byte>& stored) const {
    const std::size_t width = png_get_bit_depth(png_, info_) / 8U;  // bytes of a stored value
    const std::uint64_t most = width == 2 ? 0xFFFF : 0xFF;
    const std::size_t there = png_get_channels(png_, info_);
    const auto wanted = static_cast<std::size_t>(shape_.channels);
    const auto value_at = [&](std::size_t at) -> std::uint64_t {
      const png_byte* const value = stored.data() + at * width;
      return width == 2 ? std::uint64_t{value[0]} << 8U | value[1] : value[0];
    };
    std::vector<std::uint8_t> values(static_cast<std::size_t>(shape_.values()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t pixel = i / wanted * there;
      const std::uint64_t alpha = there > wanted ? value_at(pixel + wanted) : most;
      const std::uint64_t whole = most * most;
      values[i] = static_cast<std::uint8_t>(
          (value_at(pixel + i % wanted) * alpha * 255 + whole / 2) / whole);
    }
    return values;
  }

  static Reader& of(png_voidp reader) { return *static_cast<Reader*>(reader); }
  static void on_error(png_structp png, png_const_charp message) {
    std::snprintf(of(png_get_error_ptr(png)).message_, sizeof message_, "%s", message);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    Reader& reader = of(png_get_io_ptr(png));
    if (count > reader.rest_.size()) png_error(png, "unexpected end of file");
    std::memcpy(to, reader.rest_.data(), count);
    reader.rest_.remove_prefix(count);
  }
  [[noreturn]] void refuse() const {
    throw DataError("{}: cannot be read as a PNG file: {}", path_, truncated(message_));
  }
  void free() { png_destroy_read_struct(&png_, &info_, nullptr); }

  std::string path_;
  std::string_view rest_;  // bytes not yet read
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char message_[128] = {};
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
  require(std::ssize(image.values) == image.shape.values(),
          "expected as many values as the shape of the image");
  png_alloc_size_t bytes = 0;
  const auto write_to = [&](void* memory) {
    if (png_image_write_to_memory(&written, memory, &bytes, 0, image.values.data(), 0, nullptr) ==
        0)
      throw Failure("cannot encode an image of {} as PNG: {}",
                    to_string(image.shape),
                    truncated(written.message));
  };
  write_to(nullptr);  // computes the size
  std::string file(bytes, '\0');
  write_to(file.data());
  file.resize(bytes);
  return file;
}

ImageShape png_shape(const std::string& path) {
  const std::string bytes = bytes_of(path);
  const ImageShape shape = Reader(path, bytes).shape();
  // The last chunk: length 0, its name and its checksum.
  constexpr std::string_view ending("\0\0\0\0IEND\xAE\x42\x60\x82", 12);
  if (bytes.find(ending) == std::string::npos)
    throw DataError("{}: truncated: {} bytes without the end of a PNG file", path, bytes.size());
  return shape;
}

void average_areas(const ImageShape& image,
                   std::span<const std::int64_t> values,
                   const ImageShape& reduced,
                   std::span<std::int64_t> to) {
  require(reduced.values() > 0 && reduced.height <= image.height && reduced.width <= image.width &&
              reduced.channels == image.channels,
          "an image of {} cannot be reduced to {}",
          to_string(image),
          to_string(reduced));
  // With `from` source and `n` reduced rows, a source row has the length n and an area the length
  // `from`, so that all overlaps are whole numbers.
  struct Part {
    std::int64_t place, weight;
  };
  const auto parts_of = [](std::int64_t area, std::int64_t from, std::int64_t n) {
    std::vector<Part> parts;
    const std::int64_t begin = area * from, end = begin + from;
    for (std::int64_t place = begin / n; place * n < end; ++place)
      parts.push_back({place, std::min(end, (place + 1) * n) - std::max(begin, place * n)});
    return parts;
  };
  const std::int64_t channels = image.channels, total = image.height * image.width;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < reduced.height; ++row) {
    const std::vector<Part> rows = parts_of(row, image.height, reduced.height);
    for (std::int64_t column = 0; column < reduced.width; ++column) {
      const std::vector<Part> columns = parts_of(column, image.width, reduced.width);
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        std::int64_t sum = 0;
        for (const Part& y : rows)
          for (const Part& x : columns)
            sum += y.weight * x.weight *
                   values[static_cast<std::size_t>((y.place * image.width + x.place) * channels +
                                                   channel)];
        to[next++] = sum / total;
      }
    }
  }
}

PngImage enlarge_image(const PngImage& image, const ImageShape& shape) {
  require(image.shape.values() > 0 && image.shape.channels == shape.channels,
          "an image of {} cannot be enlarged to {}",
          to_string(image.shape),
          to_string(shape));
  PngImage result = {shape, {}};
  for (std::int64_t row = 0; row < shape.height; ++row)
    for (std::int64_t column = 0; column < shape.width; ++column)
      for (std::int64_t channel = 0; channel < shape.channels; ++channel)
        result.values.push_back(image.values[static_cast<std::size_t>(
            (row * image.shape.height / shape.height * image.shape.width +
             column * image.shape.width / shape.width) *
                shape.channels +
            channel)]);
  return result;
}

PngImage make_image_grid(std::span<const PngImage> images, std::int64_t columns) {
  constexpr std::int64_t gap = 2;
  require(!images.empty() && columns > 0,
          "invalid image grid: {} images in {} columns",
          images.size(),
          columns);
  const ImageShape each = images.front().shape;
  columns = std::min(columns, std::ssize(images));
  const std::int64_t rows = (std::ssize(images) + columns - 1) / columns;
  PngImage sheet;
  sheet.shape = {
      gap + rows * (each.height + gap), gap + columns * (each.width + gap), each.channels};
  sheet.values.assign(static_cast<std::size_t>(sheet.shape.values()), 255);
  const std::int64_t line = each.width * each.channels;
  for (std::int64_t i = 0; i < std::ssize(images); ++i) {
    const PngImage& image = images[static_cast<std::size_t>(i)];
    require(image.shape == each, "expected images of one shape in a grid");
    const std::int64_t top = gap + i / columns * (each.height + gap);
    const std::int64_t left = gap + i % columns * (each.width + gap);
    for (std::int64_t row = 0; row < each.height; ++row)
      std::copy_n(image.values.begin() + row * line,
                  line,
                  sheet.values.begin() + ((top + row) * sheet.shape.width + left) * each.channels);
  }
  return sheet;
}

namespace {

std::int64_t big_endian(std::string_view bytes) {
  std::int64_t value = 0;
  for (const char byte : bytes) value = value * 256 + static_cast<unsigned char>(byte);
  return value;
}

constexpr std::int64_t header_bytes(std::int64_t axes) { return 4 + 4 * axes; }

}  // namespace

IdxFile::IdxFile(const ConfigPath& path, int axes, std::string_view what, const Communicator& all)
    : file_(share(open_decompressed(path), all)) {
  const std::string magic = read_bytes(*file_, 0, std::min<std::int64_t>(4, file_->size()));
  if (magic != std::string{'\0', '\0', '\x08', static_cast<char>(axes)})
    throw DataError("{}: expected an IDX file of {}, which begins with the bytes 0 0 8 {}",
                    path.describe(),
                    what,
                    axes);
  if (file_->size() < header_bytes(axes))
    throw DataError("{}: truncated: {} bytes, but the header requires {}",
                    file_->path(),
                    file_->size(),
                    header_bytes(axes));
  std::int64_t wanted = 1;
  for (int axis = 0; axis < axes; ++axis) {
    axes_.push_back(big_endian(read_bytes(*file_, header_bytes(axis), header_bytes(axis + 1))));
    if (axes_.back() == 0 || wanted > (std::int64_t{1} << 60) / axes_.back())
      throw DataError(
          "{}: invalid size {} along axis {} in the header", file_->path(), axes_.back(), axis);
    wanted *= axes_.back();
  }
  if (wanted != file_->size() - header_bytes(axes))
    throw DataError("{}: {}: expected {} bytes of {}, as in the header, found {}",
                    file_->path(),
                    wanted > file_->size() - header_bytes(axes) ? "truncated" : "too long",
                    wanted,
                    what,
                    file_->size() - header_bytes(axes));
}

std::int64_t IdxFile::elements() const {
  std::int64_t product = 1;
  for (std::size_t axis = 1; axis < axes_.size(); ++axis) product *= axes_[axis];
  return product;
}

void IdxFile::read(std::int64_t entry, std::span<char> out) const {
  file_->copy(header_bytes(std::ssize(axes_)) + entry * elements(), out);
}

}  // namespace longspan
