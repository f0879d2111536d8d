// Progress of a full read of a long file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace longspan {

struct ScanProgress {
  const std::string& path;
  std::int64_t done = 0;  // bytes
  std::int64_t size = 0;  // bytes
  std::string note = {};  // message for the user, such as skipped files
};

// Called after each chunk of a file, every few milliseconds, and with each note. An exception
// thrown by it ends the read.
using ProgressCallback = std::function<void(const ScanProgress&)>;

}  // namespace longspan
