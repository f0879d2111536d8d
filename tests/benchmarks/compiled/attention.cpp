// Instruction counts of the compiled kernels of tiled attention, from their PTX without a GPU,
// before register allocation. Counts are per warp of four, for a tile of 64 queries and 64 keys
// without masked pairs. Computed as the second difference over 256, 512 and 768 causal tokens,
// which contains only such tiles, 16 per head.
//   benchmark_compiled_attention [--terms all] [--lines] [--dim 64]
//     LONGSPAN_PTX: directory of the libraries that contain the PTX: build
//     --terms: all, or causal, relative, slopes, span, dropout, self-score
//     --lines: by source line, if the PTX has lines (CMAKE_CUDA_FLAGS=-lineinfo)
#include <cxxabi.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/kernels/attention_reference.h"
#include "tests/support/ptx/counts.h"

namespace longspan {
namespace {

enum Kind { instructions, products, shared_memory, shuffles, kinds };
using Costs = std::array<double, kinds>;
using Table = std::map<std::string, Costs>;

std::string function_name(const std::string& symbol) {
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), &std::free);
  std::string name = readable != nullptr ? readable.get() : symbol;
  constexpr std::string_view unnamed = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(unnamed, at)) != std::string::npos;)
    name.erase(at, unnamed.size());
  const std::string_view unqualified = std::string_view(name).substr(0, name.find_first_of("<("));
  const std::size_t begin = unqualified.find_last_of(": ");
  return std::string(unqualified.substr(begin == std::string_view::npos ? 0 : begin + 1));
}

std::string position_of(const ptx::Instruction& instruction) {
  std::string_view file = instruction.source;
  file.remove_prefix(file.find_last_of('/') + 1);
  return fmt::format("{}:{}", file.substr(0, file.find('"')), instruction.source_line);
}

// Calls by their names in `--terms`.
const std::vector<std::pair<std::string_view, testing::AttentionCase>>& kinds_of_calls() {
  static const std::vector<std::pair<std::string_view, testing::AttentionCase>> all = {
      {"causal", {}},
      {"relative", {.relative = true}},
      {"slopes", {.slopes = true}},
      {"span", {.span = 1}},
      {"dropout", {.dropout = 0.1}},
      {"self-score", {.hash = 1}}};
  return all;
}

// Sums over all warps, by kernel, or by kernel and line.
Table count(testing::AttentionCase c, std::int64_t tokens, std::int64_t dim, bool by_line) {
  c.time = c.keys = tokens;
  c.dim = c.value_dim = dim;
  c.dtype = DType::bf16;
  const AttentionGradient g = testing::make_attention(c, Device::cpu());
  const ptx::Counting counting;
  testing::run_attention(g);
  Table table;
  for (const auto& [kernel, of_kernel] : counting.kernels)
    for (const auto& [instruction, found] : of_kernel.all()) {
      const std::string name = function_name(kernel);
      Costs& costs = table[by_line ? name + " " + position_of(*instruction) : name];
      const auto issued = static_cast<double>(found.issued);
      costs[instructions] += issued;
      if (instruction->name.starts_with("mma.sync")) costs[products] += issued;
      if (instruction->name.starts_with("shfl")) costs[shuffles] += issued;
      costs[shared_memory] += static_cast<double>(found.turns);
    }
  return table;
}

// Returns whether the forward pass has the 16 x 8 x 16 products of one tile of scores and one of
// outputs. Relative attention also has 80 rows of a table for 16 queries.
bool print(std::string_view call, const testing::AttentionCase& c, std::int64_t dim, bool by_line) {
  const auto needed = static_cast<double>(c.relative ? dim * 26 / 16 : dim);
  bool is_right = by_line;
  constexpr std::int64_t step = 256;
  constexpr double warps = 16 * 4;
  const Table one = count(c, step, dim, by_line), two = count(c, 2 * step, dim, by_line);
  for (const auto& [name, three] : count(c, 3 * step, dim, by_line)) {
    const auto of = [&](const Table& table, std::size_t kind) {
      const auto found = table.find(name);
      return found == table.end() ? 0 : found->second[kind];
    };
    Costs costs;
    for (std::size_t kind = 0; kind < kinds; ++kind)
      costs[kind] = (three[kind] - 2 * of(two, kind) + of(one, kind)) / warps;
    if (costs[instructions] < 1) continue;
    fmt::print("{:11} {:50} {:12.0f} {:9.0f} {:13.0f} {:9.0f}\n",
               call,
               name,
               costs[instructions],
               costs[products],
               costs[shared_memory],
               costs[shuffles]);
    if (name == "attend_matrices") is_right = costs[products] == needed;
  }
  if (!is_right)
    fmt::print(
        stderr, "{}: the forward pass has not the {} products of a warp and tile\n", call, needed);
  return is_right;
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  bool by_line = false;
  std::int64_t dim = 64;
  std::string_view terms = "all";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--lines") == 0)
      by_line = true;
    else if (std::strcmp(argv[i], "--dim") == 0 && i + 1 < argc)
      dim = std::atoll(argv[++i]);
    else if (std::strcmp(argv[i], "--terms") == 0 && i + 1 < argc)
      terms = argv[++i];
    else
      return fmt::print(stderr, "usage: {} [--terms all] [--lines] [--dim 64]\n", argv[0]), 2;
  }
  if (std::getenv("LONGSPAN_PTX") == nullptr)
    return fmt::print(stderr,
                      "LONGSPAN_PTX is not set: wanted the folder of the kernels' libraries\n"),
           2;
  fmt::print("a warp and tile, heads of {}, bf16\n{:62} {:>12} {:>9} {:>13} {:>9}\n",
             dim,
             "",
             "instructions",
             "products",
             "shared memory",
             "shuffles");
  bool is_right = true, is_known = false;
  for (const auto& [name, c] : longspan::kinds_of_calls()) {
    if (terms != "all" && terms != name) continue;
    is_known = true;
    is_right = longspan::print(name, c, dim, by_line) && is_right;
  }
  if (!is_known) return fmt::print(stderr, "--terms {}: there is no such call\n", terms), 2;
  return is_right ? 0 : 1;
}
