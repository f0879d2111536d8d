// Reads and writes safetensors files tensor by tensor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/core/tensor.h"
#include "framework/interop/safetensors_header.h"

namespace longspan {

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
