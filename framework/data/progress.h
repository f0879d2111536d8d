// Who hears how far a long text has been read from end to end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace longspan {

struct ScanProgress {
  const std::string& path;
  std::int64_t done = 0;  // bytes
  std::int64_t size = 0;  // bytes
  std::string note = {};  // a sentence for the user, such as what is not read
};

// Called after each piece of a text, which takes milliseconds, and with each note. What it throws
// ends the reading.
using ProgressCallback = std::function<void(const ScanProgress&)>;

}  // namespace longspan
