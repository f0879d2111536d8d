// State of the threads of a block that runs PTX.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/ptx/counts.h"
#include "tests/support/ptx/program.h"

namespace ptx {

inline constexpr unsigned warp_size = 32;

// State of a running function.
struct Frame {
  const Function* function = nullptr;
  std::vector<std::uint64_t> registers;
  std::vector<std::byte> parameters;
  std::vector<std::uint64_t> local;
  const Instruction* call = nullptr;  // the calling instruction
};

enum class State { runs, meets_warp, meets_block, returned };

// An asynchronous copy to shared memory.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;  // of 16; the rest becomes zero
};

// An asynchronous product of a warp group. Until the wait its sums are marks: NaNs that no
// computation produces. Marks can move between registers but not be computed with.
inline constexpr std::uint32_t marks = 0xffd00000, max_marks = 1u << 20;
inline bool is_mark(std::uint32_t bits) { return bits >= marks && bits < marks + max_marks; }
struct Product {
  std::uint32_t first_mark = 0;
  std::vector<std::uint32_t> before;  // sums, or marks of an earlier product
  std::vector<float> product;
  // Factors: the left rows for the sums of a thread or their descriptor, and the right descriptor.
  std::array<std::array<float, 16>, 2> rows = {};
  std::uint64_t left = 0, right = 0;
  bool has_left = false;
  bool transposed = false;
  bool is_bfloat16 = false;
};

// The shared memory of a block.
struct Shared {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

class Thread {
 public:
  std::vector<Frame> frames;  // the first `depth` are active, the rest is reused
  std::size_t depth = 0;
  std::uint64_t* registers = nullptr;  // of the last frame
  const Instruction* code = nullptr;
  const Instruction* next = nullptr;
  State state = State::runs;
  const Instruction* meeting = nullptr;  // the instruction where it waits
  Shared shared;
  const std::vector<Thread>* block = nullptr;
  unsigned index = 0;
  unsigned block_index = 0;
  unsigned blocks = 0;  // of the grid
  bool carry = false;
  std::vector<Copy> copies;
  std::deque<std::vector<Copy>> copy_groups;
  bool has_unshown_copies = false;
  std::vector<Product> products;
  std::deque<std::vector<Product>> product_groups;
  std::uint32_t next_mark = 0;
  bool products_began = false;
  Counts* counts = nullptr;  // nullptr: no counting

  template <typename T>
  T get(const Instruction& instruction, std::size_t operand) const {
    T value;
    std::memcpy(&value, registers + instruction.values[operand], sizeof(T));
    return value;
  }
  // Extends signed numbers by their sign, others by zeros.
  template <typename T>
  void put(const Instruction& instruction, std::size_t operand, T value) {
    std::uint64_t bits = 0;
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      bits = static_cast<std::uint64_t>(std::int64_t{value});
    else
      std::memcpy(&bits, &value, sizeof(T));
    registers[instruction.values[operand]] = bits;
  }
  // An operand of a computation. Fails for the mark of an incomplete product.
  template <typename T>
  T number(const Instruction& instruction, std::size_t operand) const {
    if constexpr (std::is_same_v<T, float>)
      if (is_mark(get<std::uint32_t>(instruction, operand))) fail_at_mark();
    return get<T>(instruction, operand);
  }
  bool get_bool(const Instruction& instruction, std::size_t operand) const {
    return (registers[instruction.values[operand]] & 1) != 0;
  }

  Frame& frame() { return frames[depth - 1]; }
  const Frame& frame() const { return frames[depth - 1]; }

  // Starts a kernel.
  void start(const Function& kernel);
  // Runs until it waits for other threads or returns.
  void run();
  void call(const Instruction& instruction);
  void leave();

 private:
  void enter(const Function& function);
  [[noreturn]] void fail_at_mark() const;
};

// Lanes at one instruction, without those that have returned.
class Warp {
 public:
  std::array<Thread*, warp_size> lanes = {};  // nullptr: returned
  template <typename F>
  void for_each(const F& f) const {
    for (unsigned lane = 0; lane < warp_size; ++lane)
      if (lanes[lane] != nullptr) f(*lanes[lane], lane);
  }
};

// Reports the instruction and the error, then aborts.
[[noreturn]] void fail(const Thread& thread, const std::string& what);

// Address of `bytes` of shared memory. Fails outside the block's memory or if they are not aligned.
std::byte* shared_place(const Thread& thread, std::uint64_t address, std::size_t bytes);
// Also counts the access of the instruction.
inline std::byte* shared_place(const Thread& thread,
                               const Instruction& instruction,
                               std::uint64_t address,
                               std::size_t bytes) {
  std::byte* const place = shared_place(thread, address, bytes);
  if (thread.counts != nullptr)
    thread.counts->touch(thread.index % warp_size, instruction, address, bytes);
  return place;
}

}  // namespace ptx
