// Contiguous binary numbers in a file.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "framework/core/input_file.h"

namespace longspan {

static_assert(std::endian::native == std::endian::little, "files hold numbers in that order");

// Calls f(i, value) for each of `count` little-endian values of type T, from byte `offset`. Throws
// as InputFile::copy.
template <typename T, typename F>
void for_each_value(const InputFile& file, std::int64_t offset, std::int64_t count, F&& f) {
  std::array<T, 4096> buffer;
  for (std::int64_t done = 0; done < count;) {
    const auto part = std::min<std::int64_t>(buffer.size(), count - done);
    file.copy(offset + done * std::int64_t{sizeof(T)},
              {reinterpret_cast<char*>(buffer.data()), static_cast<std::size_t>(part) * sizeof(T)});
    for (std::int64_t i = 0; i < part; ++i) f(done + i, buffer[static_cast<std::size_t>(i)]);
    done += part;
  }
}

}  // namespace longspan
