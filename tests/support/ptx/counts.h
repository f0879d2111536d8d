// What the warps of kernels do: how often they issue each instruction, and how long shared memory
// takes to answer.
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
  std::uint64_t issued = 0;  // by warps, as far as their first lanes go
  // Turns of shared memory, in which each of its 32 banks gives a word: a warp's request for 128
  // bytes takes one, or as many as it has different words of one bank. Not what products of warp
  // groups read there, nor addresses of no space.
  std::uint64_t turns = 0;
};

class Counts {
 public:
  void issue(const Instruction& instruction) { ++counts_[&instruction].issued; }
  // A lane asks for these bytes of shared memory.
  void touch(unsigned lane,
             const Instruction& instruction,
             std::uint64_t address,
             std::size_t bytes) {
    touched_[lane].push_back({&instruction, address, bytes});
  }
  // The lanes of the warp have gone as far as they come alone: what each asked for by its n-th turn
  // at an instruction was one request.
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

// While there is one, what kernels do that `run` runs is counted.
class Counting {
 public:
  Counting();
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  std::unordered_map<std::string, Counts> kernels;  // by their names in the text
};

}  // namespace ptx
