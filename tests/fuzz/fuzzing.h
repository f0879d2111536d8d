// What the fuzzers of this folder share. One of them is a file NAME_fuzz.cpp with the function that
// libFuzzer calls for each input; where there is no libFuzzer, replay.cpp calls it for the inputs
// that are kept in corpus/NAME.
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

// Ends the process, which is what a finding is, unless `condition` holds.
inline void expect(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "FINDING: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// No sentence that refuses something grows with it.
inline constexpr std::size_t longest_sentence = 8192;

// Calls what reads an input. It may refuse it as bad data or as a bad configuration; whatever else
// it throws gets out of here, which ends the process. Whether it was read.
template <typename F>
bool is_read(F&& f) {
  try {
    f();
    return true;
  } catch (const DataError& error) {
    const std::string_view sentence = error.what();
    expect(!sentence.empty() && sentence.size() <= longest_sentence, "a sentence without a bound");
  } catch (const ConfigurationError& error) {
    expect(!std::string_view(error.what()).empty(), "nothing is said of what is wrong");
  }
  return false;
}

// The whole of a fuzzer: f gets the bytes of the input.
template <typename F>
int fuzz(const std::uint8_t* data, std::size_t size, F&& f) {
  const MemoryBound bound(size);
  is_read([&] { f(std::string_view(reinterpret_cast<const char*>(data), size)); });
  return 0;
}

// The first byte, which is taken from the input; 0 where there is none. What is chosen with it is
// the same for every input that goes on alike.
inline unsigned take_byte(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto byte = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  return byte;
}

// Of inputs that are several texts: what stands before the next byte 0x1E, ASCII's separator of
// records, or all.
inline std::string_view take_part(std::string_view& bytes) {
  const std::size_t end = std::min(bytes.find('\x1e'), bytes.size());
  const std::string_view part = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return part;
}

// A folder for what is read from files. One lives as long as the process: it is made once, and its
// files are written anew for each input.
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
