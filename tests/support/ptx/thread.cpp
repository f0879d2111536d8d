#include "tests/support/ptx/thread.h"

#include <bit>
#include <cstdio>
#include <cstdlib>

namespace ptx {

void fail(const Thread& thread, const std::string& what) {
  const Instruction& at = thread.state == State::meets_warp ? *thread.meeting : thread.next[-1];
  std::fprintf(stderr,
               "%s: line %d of its PTX (%.*s), thread %u of block %u: %s\n",
               thread.frames.front().function->name.c_str(),
               at.line,
               static_cast<int>(at.name.size()),
               at.name.data(),
               thread.index,
               thread.block_index,
               what.c_str());
  std::abort();
}

std::byte* shared_place(const Thread& thread, std::uint64_t address, std::size_t bytes) {
  if (address + bytes > thread.shared.bytes) fail(thread, "beyond the block's shared memory");
  if (address % bytes != 0) fail(thread, "shared memory that is not aligned");
  return thread.shared.begin + address;
}

void Thread::fail_at_mark() const { fail(*this, "a sum that a product still computes"); }

void Thread::run() {
  while (state == State::runs) {
    const Instruction& instruction = *next++;
    if (counts != nullptr && index % warp_size == 0) counts->issue(instruction);
    if (instruction.has_guard && ((registers[instruction.guard] & 1) != 0) == instruction.unless)
      continue;
    if (instruction.together != nullptr) {
      meeting = &instruction;
      state = State::meets_warp;
    } else {
      instruction.alone(*this, instruction);
    }
  }
}

void Thread::start(const Function& kernel) {
  state = State::runs;
  depth = 0;
  copy_groups.clear();
  carry = has_unshown_copies = products_began = false;
  enter(kernel);
}

void Thread::enter(const Function& function) {
  if (frames.size() == depth) frames.emplace_back();
  Frame& frame = frames[depth++];
  frame.function = &function;
  frame.registers = function.registers;
  frame.parameters.assign(function.parameter_bytes, std::byte{0xff});
  frame.local.assign((function.local_bytes + 7) / 8, ~std::uint64_t{0});
  for (const auto& [address, offset] : function.local_addresses)
    frame.registers[address] = std::bit_cast<std::uint64_t>(frame.local.data()) + offset;
  const std::array<std::uint64_t, 5> places = {
      index, index % warp_size, block_index, block->size(), blocks};
  for (const auto& [to, place] : function.places)
    frame.registers[to] = places[static_cast<std::size_t>(place)];
  registers = frame.registers.data();
  next = code = function.code.data();
}

void Thread::call(const Instruction& instruction) {
  const Function& callee = *instruction.callee;
  enter(callee);
  frame().call = &instruction;
  const std::vector<std::byte>& from = frames[depth - 2].parameters;
  for (std::size_t n = 0; n < callee.parameters.size(); ++n)
    std::memcpy(frame().parameters.data() + callee.parameters[n].offset,
                from.data() + instruction.values[callee.results.size() + n],
                callee.parameters[n].bytes);
}

void Thread::leave() {
  if (--depth == 0) {
    state = State::returned;
    return;
  }
  const Frame& done = frames[depth];
  for (std::size_t n = 0; n < done.function->results.size(); ++n)
    std::memcpy(frame().parameters.data() + done.call->values[n],
                done.parameters.data() + done.function->results[n].offset,
                done.function->results[n].bytes);
  registers = frame().registers.data();
  code = frame().function->code.data();
  next = done.call + 1;
}

}  // namespace ptx
