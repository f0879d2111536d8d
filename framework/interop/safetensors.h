// Files of safetensors, read and written tensor by tensor.
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
  // Reads the header. Throws DataError for a file that is none, see read_header.
  explicit SafetensorsFile(const std::filesystem::path& path);

  std::filesystem::path path() const { return file_.path(); }
  const StoredTensors& tensors() const { return tensors_; }
  // The tensor in float32 on the host: narrower elements are widened, wider ones rounded to the
  // nearest. It takes its own memory and that of a small block. Throws DataError that names it
  // where it is not there, its dtype is none of weights, or it cannot be read.
  Tensor read(const std::string& name) const;

 private:
  InputFile file_;
  std::int64_t data_begin_ = 0;
  StoredTensors tensors_;
};

// A new file of tensors of one dtype, whose names and shapes are known before.
class SafetensorsWriter {
 public:
  using Tensors = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

  // Throws Failure where the file cannot be written.
  SafetensorsWriter(std::filesystem::path path, Tensors tensors, DType dtype);
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  // The next one, in the order in which they were named, f32 or f64 on the host; rounded to the
  // nearest. Throws DataError where a number is finite and too large for the dtype, Failure where
  // it cannot be written.
  void write(const std::string& name, const Tensor& tensor);
  // When all are written: the file is on the disk.
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
