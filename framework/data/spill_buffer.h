// Buffer of numbers that spills to disk.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace longspan {

// Holds a few numbers in memory and the rest in an unlinked file, which is deleted with the object.
class SpillBuffer {
 public:
  // The file is created in `folder`.
  explicit SpillBuffer(std::filesystem::path folder, std::size_t max_owned = std::size_t{1} << 20)
      : folder_(std::move(folder)), max_in_memory_(max_owned) {}
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;
  ~SpillBuffer();

  // Appends a number. Throws Failure, as below, when the file cannot be written or read.
  void add(std::uint64_t number);
  std::int64_t size() const { return spilled_ + std::ssize(held_); }
  // Calls f(numbers) on consecutive blocks, in order.
  void for_each(const std::function<void(std::span<const std::uint64_t>)>& f);

 private:
  void spill();

  std::filesystem::path folder_;
  std::size_t max_in_memory_;
  std::vector<std::uint64_t> held_;
  std::int64_t spilled_ = 0;
  std::FILE* file_ = nullptr;
};

}  // namespace longspan
