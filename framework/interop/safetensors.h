// Reads and writes safetensors files tensor by tensor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/input_file.h"
#include "framework/core/tensor.h"

namespace longspan {

// Header of a safetensors file: its tensors and their offsets.
//
// A file consists of the header length n (8 bytes, little-endian), n bytes of JSON, and the
// elements, little-endian and row-major, without gaps. The JSON object has an entry {"dtype",
// "shape", "data_offsets": [begin, end]} for each tensor and optionally "__metadata__" with
// strings. Offsets count from the end of the header.

// Longer headers are rejected; this suffices for several hundred thousand tensors.
inline constexpr std::int64_t max_header_bytes = std::int64_t{16} << 20;
inline constexpr std::size_t max_stored_tensors = std::size_t{1} << 18;

struct StoredTensor {
  std::string dtype;  // in the format's notation: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // offset in bytes from the end of the header
  std::int64_t end = 0;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Returns the dtype of a name; nothing for an unsupported one.
std::optional<DType> dtype_of_stored(std::string_view name);
// Returns "F64", "F32", "F16" or "BF16".
std::string_view stored_name_of(DType dtype);

// Parses a JSON header of a file with `data_bytes` of elements. Throws DataError, prefixed with
// `place`, for other content: duplicate names, dtypes unknown to the format, shapes that overflow
// or contradict the offsets, overlaps and gaps. Allocates only the result.
StoredTensors read_header(std::string_view json, std::int64_t data_bytes, const std::string& place);

// Inverse of read_header: tensors of one dtype by name and shape, in storage order. Padded with
// blanks so that the elements start at a multiple of 8 bytes.
std::string header_text(
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, DType dtype);

class SafetensorsFile {
 public:
  // Reads the header. Throws DataError for an invalid file, see read_header.
  explicit SafetensorsFile(const std::filesystem::path& path);

  std::filesystem::path path() const { return file_.path(); }
  const StoredTensors& tensors() const { return tensors_; }
  // Returns the tensor in float32 on the host: narrower elements are widened, wider ones rounded to
  // nearest. Memory use is the tensor plus a small block. Throws DataError, which names it, where
  // it is missing, unreadable or has an unsupported dtype.
  Tensor read(const std::string& name) const;

 private:
  InputFile file_;
  std::int64_t data_begin_ = 0;
  StoredTensors tensors_;
};

// Writer of a file of tensors of one dtype, with names and shapes known in advance.
class SafetensorsWriter {
 public:
  using Tensors = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

  // Throws Failure where the file cannot be written.
  SafetensorsWriter(std::filesystem::path path, Tensors tensors, DType dtype);
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  // Writes the next tensor in the declared order, f32 or f64 on the host, rounded to nearest.
  // Throws DataError where a finite value overflows the dtype, and Failure where writing fails.
  void write(const std::string& name, const Tensor& tensor);
  // Syncs the file, after all tensors are written.
  void finish();

 private:
  void put(const void* bytes, std::size_t count);
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  Tensors tensors_;
  std::size_t next_ = 0;
  DType dtype_;
  std::FILE* file_ = nullptr;
};

}  // namespace longspan
