#include "framework/interop/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/quote.h"
#include "framework/core/system.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t elements_at_once = std::int64_t{1} << 18;

std::int64_t header_length(const InputFile& file) {
  const std::string place = file.path();
  if (file.size() < length_bytes)
    throw DataError("{}: expected a safetensors file, found {} bytes", place, file.size());
  std::array<std::byte, length_bytes> bytes{};
  file.copy(0, bytes);
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8 | static_cast<std::uint64_t>(bytes[i]);
  const std::int64_t left = file.size() - length_bytes;
  if (length > static_cast<std::uint64_t>(left))
    throw DataError(
        "{}: is truncated or not a safetensors file: header of {} bytes, {} bytes left in the file",
        place,
        length,
        left);
  if (length > static_cast<std::uint64_t>(max_header_bytes))
    throw DataError(
        "{}: expected a header of at most {} bytes, found {}", place, max_header_bytes, length);
  return static_cast<std::int64_t>(length);
}

// Reads stored elements and converts them block by block.
template <typename From>
void read_elements(const InputFile& file,
                   const std::string& name,
                   std::int64_t begin,
                   std::span<float> out) {
  std::vector<From> block(std::min<std::size_t>(out.size(), elements_at_once));
  for (std::size_t done = 0; done < out.size(); done += block.size()) {
    const std::span<From> part(block.data(), std::min(block.size(), out.size() - done));
    file.copy(begin + static_cast<std::int64_t>(done * sizeof(From)), std::as_writable_bytes(part));
    std::ranges::transform(part, out.begin() + static_cast<std::ptrdiff_t>(done), [&](From value) {
      const auto narrow = static_cast<float>(value);
      if constexpr (std::is_same_v<From, double>)
        if (std::isfinite(value) && !std::isfinite(narrow))
          throw DataError(
              "{}: tensor {}: {} is too large for float32", file.path(), quote(name), value);
      return narrow;
    });
  }
}

template <typename From, typename To, typename Put>
void write_elements(const std::string& name, std::span<const From> values, const Put& put_block) {
  std::vector<To> block(std::min<std::size_t>(values.size(), elements_at_once));
  for (std::size_t done = 0; done < values.size(); done += block.size()) {
    const std::span<To> part(block.data(), std::min(block.size(), values.size() - done));
    for (std::size_t i = 0; i < part.size(); ++i) {
      const From value = values[done + i];
      put(part[i], value);
      if (std::isfinite(value) && !std::isfinite(static_cast<Accumulator<To>>(part[i])))
        throw DataError("tensor {}: element {} ({}) is too large for {}",
                        quote(name),
                        done + i,
                        value,
                        stored_name_of(DTypeOf<To>::value));
    }
    put_block(part.data(), part.size_bytes());
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path.string()) {
  const std::int64_t length = header_length(file_);
  std::string json(static_cast<std::size_t>(length), '\0');
  file_.copy(length_bytes, std::span(json));
  data_begin_ = length_bytes + length;
  tensors_ = read_header(json, file_.size() - data_begin_, path.string());
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const std::string& place = file_.path();
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw DataError("{}: no such tensor {}", place, quote(name));
  const StoredTensor& stored = found->second;
  const auto dtype = dtype_of_stored(stored.dtype);
  if (!dtype)
    throw DataError("{}: tensor {}: expected dtype F64, F32, BF16 or F16, found {}",
                    place,
                    quote(name),
                    stored.dtype);
  if (stored.shape.size() > Shape::max_dimensions)
    throw DataError("{}: tensor {}: expected at most {} dimensions, found {}",
                    place,
                    quote(name),
                    Shape::max_dimensions,
                    stored.shape.size());
  Tensor tensor = Tensor::empty(Shape(std::span<const std::int64_t>(stored.shape)),
                                DType::f32,
                                Device::cpu(),
                                MemoryTag::workspace);
  with_floating_type(*dtype, [&](auto tag) {
    read_elements<typename decltype(tag)::type>(
        file_, name, data_begin_ + stored.begin, tensor.span<float>());
  });
  return tensor;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, Tensors tensors, DType dtype)
    : path_(std::move(path)),
      tensors_(std::move(tensors)),
      dtype_(dtype),
      file_(std::fopen(path_.c_str(), "wbxe")) {
  if (file_ == nullptr) fail();
  const std::string header = header_text(tensors_, dtype);
  std::array<unsigned char, length_bytes> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  put(length.data(), length.size());
  put(header.data(), header.size());
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

void SafetensorsWriter::write(const std::string& name, const Tensor& tensor) {
  require(next_ < tensors_.size() && tensors_[next_].first == name &&
              tensor.shape() == Shape(std::span<const std::int64_t>(tensors_[next_].second)),
          "{}: tensor \"{}\" of shape {} is written out of order",
          path_.string(),
          name,
          tensor.shape());
  ++next_;
  const auto write_as = [&](auto from) {
    using From = decltype(from);
    with_floating_type(dtype_, [&](auto to) {
      write_elements<From, typename decltype(to)::type>(
          name,
          std::span<const From>(tensor.span<From>()),
          [&](const void* bytes, std::size_t count) { put(bytes, count); });
    });
  };
  if (tensor.dtype() == DType::f64)
    write_as(double{});
  else
    write_as(float{});
}

void SafetensorsWriter::finish() {
  require(next_ == tensors_.size(),
          "{}: only {} of {} tensors were written",
          path_.string(),
          next_,
          tensors_.size());
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
}

void SafetensorsWriter::put(const void* bytes, std::size_t count) {
  if (std::fwrite(bytes, 1, count, file_) != count) fail();
}

void SafetensorsWriter::fail() const {
  throw Failure("{}: cannot be written: {}", path_.string(), errno_message());
}

}  // namespace longspan
