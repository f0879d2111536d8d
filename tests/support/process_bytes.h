// Memory of this process.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace longspan {

// A line of /proc/self/status, in bytes.
inline std::int64_t process_bytes(const std::string& line_name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == line_name + ":") {
      std::int64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return -1;
}

}  // namespace longspan
