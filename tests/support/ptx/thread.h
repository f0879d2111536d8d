// The threads of a block that runs compiled code, as its instructions see them.
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

// What a function needs while it runs.
struct Frame {
  const Function* function = nullptr;
  std::vector<std::uint64_t> registers;
  std::vector<std::byte> parameters;
  std::vector<std::uint64_t> local;
  const Instruction* call = nullptr;  // that it came by
};

enum class State { runs, meets_warp, meets_block, returned };

// A copy to shared memory that goes on.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;  // the rest is zero
};

// A product of a warp group that goes on. Its sums are marks until it has been waited for: NaNs
// that come of no computing, move between registers as sums would, and may not be computed with.
inline constexpr std::uint32_t marks = 0xffd00000, most_marks = 1u << 20;
inline bool is_mark(std::uint32_t bits) { return bits >= marks && bits < marks + most_marks; }
struct Product {
  std::uint32_t first_mark = 0;
  std::vector<std::uint32_t> before;  // sums, or marks of an earlier product
  std::vector<float> product;
  // Its factors: the rows that a thread's sums need of the left one, or the descriptor of where
  // they are in memory, and that of the right one.
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
  std::vector<Frame> frames;  // of functions that call each other, and behind `depth` old ones
  std::size_t depth = 0;
  std::uint64_t* registers = nullptr;  // of the last frame
  const Instruction* code = nullptr;
  const Instruction* next = nullptr;
  State state = State::runs;
  const Instruction* meeting = nullptr;  // where it waits for others
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
  Counts* counts = nullptr;  // where instructions are counted

  template <typename T>
  T get(const Instruction& instruction, std::size_t operand) const {
    T value;
    std::memcpy(&value, registers + instruction.values[operand], sizeof(T));
    return value;
  }
  // Signed numbers fill the register with their sign, others with zeros.
  template <typename T>
  void put(const Instruction& instruction, std::size_t operand, T value) {
    std::uint64_t bits = 0;
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      bits = static_cast<std::uint64_t>(std::int64_t{value});
    else
      std::memcpy(&bits, &value, sizeof(T));
    registers[instruction.values[operand]] = bits;
  }
  // To compute with: no number that waits for its product.
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

  // At the beginning of a kernel.
  void start(const Function& kernel);
  // Goes on as far as it comes alone.
  void run();
  void call(const Instruction& instruction);
  void leave();

 private:
  void enter(const Function& function);
  [[noreturn]] void fail_at_mark() const;
};

// The lanes that have not returned, at the same instruction.
class Warp {
 public:
  std::array<Thread*, warp_size> lanes = {};  // nullptr where they have returned
  template <typename F>
  void for_each(const F& f) const {
    for (unsigned lane = 0; lane < warp_size; ++lane)
      if (lanes[lane] != nullptr) f(*lanes[lane], lane);
  }
};

// Ends the test with the instruction and what is wrong there.
[[noreturn]] void fail(const Thread& thread, const std::string& what);

// Where `bytes` of shared memory are: fails beyond the block's, and where they are not aligned.
std::byte* shared_place(const Thread& thread, std::uint64_t address, std::size_t bytes);
// The same of what a lane asks for by an instruction of its own.
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
