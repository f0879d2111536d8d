// Shared by all fuzzers. NAME_fuzz.cpp has the function that libFuzzer calls for each input.
// Without libFuzzer, replay.cpp calls it for the inputs in corpus.tar.zst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "tests/fuzz/memory_bound.h"
#include "tests/support/temporary_directory.h"

namespace longspan::fuzzing {

// Reports a finding and aborts unless `condition` is true.
inline void expect(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "FINDING: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// Bytes. An error message must not grow with the input.
inline constexpr std::size_t max_message_bytes = 8192;

// Calls f, which reads an input; returns false if f rejects it as bad data or bad configuration.
// Other exceptions propagate and end the process.
template <typename F>
bool is_read(F&& f) {
  try {
    f();
    return true;
  } catch (const DataError& error) {
    const std::string_view message = error.what();
    expect(!message.empty() && message.size() <= max_message_bytes, "a sentence without a bound");
  } catch (const ConfigurationError& error) {
    expect(!std::string_view(error.what()).empty(), "nothing is said of what is wrong");
  }
  return false;
}

// A fuzzer: calls f with the bytes of the input.
template <typename F>
int fuzz(const std::uint8_t* data, std::size_t size, F&& f) {
  const MemoryBound bound(size);
  is_read([&] { f(std::string_view(reinterpret_cast<const char*>(data), size)); });
  return 0;
}

// Removes and returns the first byte; 0 if there is none. It selects variants of a fuzzer.
inline unsigned take_byte(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto byte = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  return byte;
}

// Removes and returns the bytes before the next 0x1E (record separator); all if there is none.
inline std::string_view take_part(std::string_view& bytes) {
  const std::size_t end = std::min(bytes.find('\x1e'), bytes.size());
  const std::string_view part = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return part;
}

// A temporary directory for input files. One per process; its files are overwritten for each input.
class InputFolder {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string put(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path() / name;
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    require(stream.good(), "{}: cannot be written", file.string());
    return file.string();
  }
  void remove(const std::string& name) const {
    std::error_code unused;
    std::filesystem::remove_all(path() / name, unused);
  }

 private:
  testing::TemporaryDirectory folder_;
};

}  // namespace longspan::fuzzing
