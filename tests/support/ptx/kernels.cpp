#include "tests/support/ptx/kernels.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/support/ptx/counts.h"
#include "tests/support/ptx/thread.h"
#include "tests/support/ptx/words.h"

// Reference for the load address of the program.
extern "C" void longspan_anchor() {}

namespace ptx {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "LONGSPAN_PTX: %s\n", what.c_str());
  std::abort();
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// Mangled name on the host. On the device the name of an anonymous namespace contains the file.
std::string host_name(std::string name) {
  constexpr std::string_view unnamed = "_GLOBAL__N_", host = "12_GLOBAL__N_1";
  for (std::size_t at = 0; (at = name.find(unnamed, at)) != std::string::npos;) {
    std::size_t digits = at;
    while (digits > 0 && is_digit(name[digits - 1])) --digits;
    const std::size_t length = std::strtoul(name.c_str() + digits, nullptr, 10);
    name.replace(digits, at - digits + length, host);
    at = digits + host.size();
  }
  return name;
}

// Addresses of the functions of this program by name; nullptr: ambiguous name.
std::map<std::string, const void*> functions_of_program() {
  const std::string file = read_file("/proc/self/exe");
  const auto at = [&]<typename T>(std::size_t offset, const T*) {
    T value;
    std::memcpy(&value, file.data() + offset, sizeof(T));
    return value;
  };
  const auto header = at(0, static_cast<Elf64_Ehdr*>(nullptr));
  const auto section = [&](std::size_t number) {
    return at(header.e_shoff + number * header.e_shentsize, static_cast<Elf64_Shdr*>(nullptr));
  };
  std::map<std::string, const void*> functions;
  for (std::size_t s = 0; s < header.e_shnum; ++s) {
    const Elf64_Shdr symbols = section(s);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const char* const names = file.data() + section(symbols.sh_link).sh_offset;
    for (std::size_t n = 0; n < symbols.sh_size / sizeof(Elf64_Sym); ++n) {
      const auto symbol =
          at(symbols.sh_offset + n * sizeof(Elf64_Sym), static_cast<Elf64_Sym*>(nullptr));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
      const auto place = std::bit_cast<const void*>(symbol.st_value);
      const auto [known, is_new] = functions.try_emplace(names + symbol.st_name, place);
      if (!is_new && known->second != place) known->second = nullptr;
    }
  }
  // Adds the load offset of the program.
  const auto linked = functions.find("longspan_anchor");
  if (linked == functions.end()) refuse("the program has no table of its functions");
  const auto number = [](const void* place) { return std::bit_cast<std::uint64_t>(place); };
  const std::uint64_t moved =
      number(reinterpret_cast<const void*>(&longspan_anchor)) - number(linked->second);
  for (auto& [name, place] : functions)
    if (place != nullptr) place = std::bit_cast<const void*>(number(place) + moved);
  return functions;
}

// The program that contains a kernel, and its name there.
struct Source {
  Program* program = nullptr;
  std::string name;
};
struct Sources {
  std::deque<Program> programs;
  std::map<const void*, Source> kernels;
};

// PTX texts in a library with uncompressed objects (nvcc --no-compress). Each ends with a zero
// byte.
std::vector<std::string> texts_in(const std::string& library) {
  constexpr std::string_view first_line = "\n.version ";
  std::vector<std::string> texts;
  for (std::size_t at = 0; (at = library.find(first_line, at)) != std::string::npos;) {
    texts.emplace_back(library.c_str() + at);
    at += texts.back().size();
  }
  return texts;
}

Sources read_all(const std::filesystem::path& folder) {
  Sources all;
  const auto functions = functions_of_program();
  if (!std::filesystem::is_directory(folder)) refuse(folder.string() + " is no folder");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".a") continue;
    for (std::string& text : texts_in(read_file(entry.path()))) try {
        Program& program = all.programs.emplace_back(std::move(text));
        for (const std::string& name : program.kernels())
          if (const auto found = functions.find(host_name(name));
              found != functions.end() && found->second != nullptr)
            if (!all.kernels.try_emplace(found->second, &program, name).second)
              refuse(folder.string() + " has two texts of " + name);
      } catch (const std::exception& error) {
        refuse(entry.path().string() + ", " + error.what());
      }
  }
  return all;
}

// nullptr: no counting.
Counting* counting = nullptr;

// Runs blocks one after another.
class Machine {
 public:
  void run(const cudaLaunchConfig_t& config,
           const Function& kernel,
           std::span<const void* const> arguments) {
    if (arguments.size() != kernel.parameters.size())
      refuse(kernel.name + ": other parameters than the host's");
    if (kernel.max_threads != 0 && config.blockDim.x > kernel.max_threads)
      refuse(kernel.name + ": more threads than it is compiled for");
    const std::size_t bytes = kernel.shared_bytes + config.dynamicSmemBytes;
    counts_ = counting != nullptr ? &counting->kernels[kernel.name] : nullptr;
    shared_.resize(bytes / sizeof(Piece) + 2);
    threads_.resize(config.blockDim.x);
    for (unsigned block = 0; block < config.gridDim.x; ++block) {
      std::memset(shared_.data(), 0xff, shared_.size() * sizeof(Piece));
      for (unsigned t = 0; t < config.blockDim.x; ++t) {
        Thread& thread = threads_[t];
        thread.shared = {reinterpret_cast<std::byte*>(shared_.data()), bytes};
        thread.block = &threads_;
        thread.index = t;
        thread.block_index = block;
        thread.blocks = config.gridDim.x;
        thread.counts = counts_;
        thread.start(kernel);
        for (std::size_t n = 0; n < arguments.size(); ++n)
          std::memcpy(thread.frame().parameters.data() + kernel.parameters[n].offset,
                      arguments[n],
                      kernel.parameters[n].bytes);
      }
      run_block();
    }
  }

 private:
  struct alignas(1024) Piece {
    std::byte bytes[1024];
  };

  void run_block() {
    for (;;) {
      bool any = false;
      for (std::size_t first = 0; first < threads_.size(); first += warp_size)
        any = run_warp(first) || any;
      if (any) continue;
      // All threads wait for the block, or have returned. Lanes of a warp must be at one barrier.
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        Thread& thread = threads_[t];
        if (thread.state != State::meets_block) continue;
        for (std::size_t lane = t / warp_size * warp_size; lane < t; ++lane)
          if (threads_[lane].state == State::runs && threads_[lane].meeting != thread.meeting)
            fail(thread, "lanes of a warp meet at different places");
        thread.state = State::runs;
        any = true;
      }
      if (!any) break;
    }
    for (const Thread& thread : threads_)
      if (!thread.copies.empty() || !thread.products.empty() || !thread.product_groups.empty() ||
          !std::ranges::all_of(thread.copy_groups, &std::vector<Copy>::empty))
        fail(thread, "returns before what it began has come");
  }

  // Runs its lanes until they wait for another warp; returns false if none could run.
  bool run_warp(std::size_t first) {
    bool any = false;
    for (;;) {
      const Thread* one = nullptr;
      Warp warp;
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        Thread& thread = threads_[first + lane];
        any = any || thread.state == State::runs;
        thread.run();
        if (thread.state == State::returned) continue;
        warp.lanes[lane] = &thread;
        if (thread.state == State::meets_warp) one = &thread;
      }
      if (counts_ != nullptr) counts_->end_of_lanes();
      if (one == nullptr) return any;
      warp.for_each([&](const Thread& thread, unsigned) {
        if (thread.state != State::meets_warp || thread.meeting != one->meeting)
          fail(*one,
               "lanes of a warp meet at different places, another at line " +
                   std::to_string(thread.next[-1].line));
      });
      one->meeting->together(warp, *one->meeting);
      if (counts_ != nullptr) counts_->end_of_lanes();
      warp.for_each([](Thread& thread, unsigned) { thread.state = State::runs; });
    }
  }

  std::vector<Thread> threads_;
  std::vector<Piece> shared_;
  Counts* counts_ = nullptr;
};

// Name of the kernel on the host, for messages.
std::string name_of(const void* kernel) {
  for (const auto& [name, place] : functions_of_program())
    if (place == kernel) return name;
  return "a kernel without a name";
}

}  // namespace

Counting::Counting() {
  if (counting != nullptr) refuse("kernels are counted already");
  counting = this;
}
Counting::~Counting() { counting = nullptr; }

void run(const cudaLaunchConfig_t& config,
         const Function& kernel,
         std::span<const void* const> arguments) {
  static Machine machine;
  machine.run(config, kernel, arguments);
}

bool runs_compiled(const cudaLaunchConfig_t& config,
                   const void* kernel,
                   std::span<const void* const> arguments) {
  static const char* const folder = std::getenv("LONGSPAN_PTX");
  if (folder == nullptr) return false;
  static const Sources all = read_all(folder);
  const auto found = all.kernels.find(kernel);
  if (found == all.kernels.end())
    refuse(std::string("no library in ") + folder + " has the text of " + name_of(kernel));
  const auto& [program, name] = found->second;
  const Function* function = nullptr;
  try {
    function = &program->function(name);
  } catch (const std::exception& error) {
    refuse(name + ", " + error.what());
  }
  run(config, *function, arguments);
  return true;
}

}  // namespace ptx
