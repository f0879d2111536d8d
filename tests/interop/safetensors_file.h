// Writes arbitrary safetensors files.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "framework/core/error.h"
#include "framework/interop/weights_folder.h"
#include "tests/support/temporary_directory.h"

namespace longspan::testing {

inline std::string length_text(std::uint64_t length) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string file_of(const std::string& header, const std::string& data = "") {
  return length_text(header.size()) + header + data;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The message of a DataError, or the type of another error.
template <typename F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("no DataError: ") + error.what();
  }
  return "nothing was refused";
}

}  // namespace longspan::testing
