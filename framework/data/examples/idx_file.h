// Byte arrays in IDX files, the format of MNIST.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/shared_file.h"

namespace longspan {

// A value; copies share the file. Reading is thread-safe.
class IdxFile {
 public:
  // Opens a file, which may be compressed by gzip or zstd. Throws DataError when it is not a byte
  // array of `axes` axes, or its size contradicts its header. `what`: name of the required data.
  // Collective.
  IdxFile(const ConfigPath& path, int axes, std::string_view what, const Communicator& all);

  const InputFile& file() const { return *file_; }
  const SharedFile& shared() const { return file_; }
  // Length of the first axis, and the number of elements of each entry.
  std::int64_t size() const { return axes_[0]; }
  std::int64_t elements() const;
  const std::vector<std::int64_t>& axes() const { return axes_; }
  // Fills `out` with consecutive elements, starting at an entry.
  void read(std::int64_t entry, std::span<char> out) const;

 private:
  SharedFile file_;
  std::vector<std::int64_t> axes_;
};

}  // namespace longspan
