// Counts of the warps of kernels: issues per instruction, and cycles of shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/support/ptx/program.h"

namespace ptx {

struct Count {
  std::uint64_t issued = 0;  // by the first lanes of warps
  // Cycles of shared memory, in which each of its 32 banks returns one word. A request of a warp
  // for 128 bytes takes as many as it has different words in one bank. Excludes reads of warp group
  // products and generic addresses.
  std::uint64_t turns = 0;
};

class Counts {
 public:
  void issue(const Instruction& instruction) { ++counts_[&instruction].issued; }
  // Records an access of a lane to shared memory.
  void touch(unsigned lane,
             const Instruction& instruction,
             std::uint64_t address,
             std::size_t bytes) {
    touched_[lane].push_back({&instruction, address, bytes});
  }
  // Ends a phase without warp instructions: the n-th accesses of all lanes at one instruction form
  // one request.
  void end_of_lanes();

  const std::unordered_map<const Instruction*, Count>& all() const { return counts_; }

 private:
  struct Touch {
    const Instruction* instruction;
    std::uint64_t address;
    std::size_t bytes;
  };
  std::unordered_map<const Instruction*, Count> counts_;
  std::array<std::vector<Touch>, 32> touched_;  // by lane
};

// Counts the kernels of `run` during its lifetime.
class Counting {
 public:
  Counting();
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  std::unordered_map<std::string, Counts> kernels;  // by name in the PTX
};

}  // namespace ptx
