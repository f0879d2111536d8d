// Arrays of bytes in IDX files, the format of MNIST.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/shared_file.h"

namespace longspan {

// A value; copies share the file. Reading is thread-safe.
class IdxFile {
 public:
  // A file that is compressed by gzip or zstd is read as what it holds. A collective. Throws
  // DataError for a file that is not of bytes in `axes` axes, or has not
  // exactly as many bytes as its header says. `what` names what is needed.
  IdxFile(const ConfigPath& path, int axes, std::string_view what, const Communicator& all);

  const InputFile& file() const { return *file_; }
  const SharedFile& shared() const { return file_; }
  // The entries of the first axis, and the elements of each.
  std::int64_t size() const { return axes_[0]; }
  std::int64_t elements() const;
  const std::vector<std::int64_t>& axes() const { return axes_; }
  // Fills `out` with the elements of one entry, or from it on.
  void read(std::int64_t entry, std::span<char> out) const;

 private:
  SharedFile file_;
  std::vector<std::int64_t> axes_;
};

}  // namespace longspan
