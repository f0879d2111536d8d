// Parser of PTX (NVIDIA's "Parallel Thread Execution ISA"), for the subset in Longspan's compiled
// kernels.
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

// Index of a 64-bit register of a function. Constants in the text are read-only registers.
using Register = std::uint32_t;

struct Instruction {
  // One is set: the action of a single thread, or of all lanes of a warp.
  void (*alone)(Thread&, const Instruction&) = nullptr;
  void (*together)(Warp&, const Instruction&) = nullptr;
  Register guard = 0;
  bool has_guard = false;
  bool unless = false;           // runs if the guard is false
  bool parts_first = false;      // the first values are in braces
  std::vector<Register> values;  // operands, with braces and brackets expanded
  std::int64_t offset = 0;       // of an address; target instruction of a branch
  const Function* callee = nullptr;
  std::string_view name;
  int line = 0;
  // Location in the C++ source, if known.
  std::string_view source;
  int source_line = 0;
};

// Special registers: %tid.x, %laneid, %ctaid.x, %ntid.x, %nctaid.x.
enum class Place { thread, lane, block, threads, blocks };

// A named range of bytes.
struct Variable {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::uint64_t> registers;  // initial values
  // Registers initialized per thread: addresses of local memory (by offset), special registers.
  std::vector<std::pair<Register, std::size_t>> local_addresses;
  std::vector<std::pair<Register, Place>> places;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
  std::size_t parameter_bytes = 0;  // with arguments for callees
  std::size_t local_bytes = 0;
  std::size_t shared_bytes = 0;  // static; dynamic shared memory follows
  unsigned max_threads = 0;      // per block; 0: not set
};

// One file. Functions are parsed on demand, because there are many long ones.
class Program {
 public:
  // Throws std::runtime_error with the line of an unsupported construct, as does `function`.
  explicit Program(std::string text);
  Program(Program&&) noexcept;
  ~Program();

  std::vector<std::string> kernels() const;
  const Function& function(std::string_view name);

 private:
  struct Text;
  std::unique_ptr<Text> text_;
};

// instructions.cpp: sets the action of an instruction by its name; returns false if it is unknown.
bool choose_action(Instruction& instruction);

}  // namespace ptx
