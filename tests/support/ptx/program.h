// Kernels as the compiler left them: a reader of PTX (NVIDIA's "Parallel Thread Execution ISA"), of
// which what compilers make of Longspan's kernels is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptx {

class Thread;
class Warp;
struct Function;

// Registers, of 64 bits each, have a number in their function; numbers in the text are registers
// that nobody writes.
using Register = std::uint32_t;

struct Instruction {
  // One of them: what a thread does alone, or the lanes of its warp together.
  void (*alone)(Thread&, const Instruction&) = nullptr;
  void (*together)(Warp&, const Instruction&) = nullptr;
  Register guard = 0;
  bool has_guard = false;
  bool unless = false;           // done where the guard is false
  bool parts_first = false;      // the first of `values` are in braces
  std::vector<Register> values;  // what stands in braces and brackets in its place
  std::int64_t offset = 0;       // of an address; of a branch the instruction that it goes to
  const Function* callee = nullptr;
  std::string_view name;
  int line = 0;
  // Where the text knows it: of the source.
  std::string_view source;
  int source_line = 0;
};

// What a thread knows of where it is: %tid.x, %laneid, %ctaid.x, %ntid.x, %nctaid.x.
enum class Place { thread, lane, block, threads, blocks };

// Bytes that have a name.
struct Variable {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::uint64_t> registers;  // what they hold at the start
  // Registers that hold a thread's own: addresses of its local memory (by offset), and its place.
  std::vector<std::pair<Register, std::size_t>> local_addresses;
  std::vector<std::pair<Register, Place>> places;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
  std::size_t parameter_bytes = 0;  // these and what is passed to callees
  std::size_t local_bytes = 0;
  std::size_t shared_bytes = 0;  // those whose size the text knows; what a launch asks for follows
  unsigned most_threads = 0;     // of a block, or 0
};

// One file. Its functions are read when they are asked for: there are many, and they are long.
class Program {
 public:
  // Throws std::runtime_error with the line of what it does not know, as `function` does.
  explicit Program(std::string text);
  Program(Program&&) noexcept;
  ~Program();

  std::vector<std::string> kernels() const;
  const Function& function(std::string_view name);

 private:
  struct Text;
  std::unique_ptr<Text> text_;
};

// In `instructions.cpp`: sets what an instruction does by its name; false where it is unknown.
bool choose_action(Instruction& instruction);

}  // namespace ptx
