// Combinations of memory modes, compared with the rules in configs/README.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "launch/cli/configuration.h"

namespace longspan::memory_modes_test {
namespace {

struct Modes {
  std::string family;
  std::string recompute;  // memory.recompute_granularity
  int layers = 1;         // memory.recompute_num_layers
  bool reversible = false;
  bool post_norm = false;
  bool chunks = false;
  bool concatenates = false;
  bool ties = false;
  bool measures = false;

  // Implements the rules of configs/README.md.
  bool is_allowed() const {
    if (recompute != "none" && reversible) return false;
    if (reversible && post_norm) return false;
    if (concatenates && (ties || !reversible)) return false;
    return !measures || reversible;
  }

  std::vector<std::string> settings() const {
    std::vector<std::string> set = {
        "model.family=" + family,
        "memory.recompute_granularity=" + recompute,
        fmt::format("memory.recompute_num_layers={}", layers),
        fmt::format("model.residual.type={}", reversible ? "reversible" : "standard"),
        fmt::format("model.norm.position={}", post_norm ? "post" : "pre"),
        fmt::format("model.residual.reversible_output={}", concatenates ? "concat" : "mean"),
        fmt::format("model.tie_word_embeddings={}", ties),
        fmt::format("memory.reconstruction_check_interval={}", measures ? 5 : 0)};
    if (chunks) {
      set.push_back("memory.num_feed_forward_chunks=8");
      set.push_back("memory.num_loss_chunks=8");
    }
    return set;
  }
};

std::vector<Modes> all_modes() {
  std::vector<Modes> all;
  for (const char* family : {"transformer_xl", "decoder"})
    for (const auto& [recompute, layers] :
         {std::pair("none", 1), {"selective", 1}, {"full", 1}, {"full", 2}})
      for (int bits = 0; bits < 64; ++bits)
        all.push_back({family,
                       recompute,
                       layers,
                       (bits & 1) != 0,
                       (bits & 2) != 0,
                       (bits & 4) != 0,
                       (bits & 8) != 0,
                       (bits & 16) != 0,
                       (bits & 32) != 0});
  return all;
}

// Returns the error message, or "" for a valid combination.
std::string refusal(const Modes& modes, const std::vector<std::string>& others) {
  std::vector<std::string> set = modes.settings();
  set.insert(set.end(), others.begin(), others.end());
  try {
    configure({.file = "a.yaml",
               .text = "run: {output_dir: r}\nmodel: {num_hidden_layers: 2}\ndata: {train: t}\n",
               .settings = set});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

bool supports_memory(const std::string& kind) {
  for (const char* other :
       {"block", "summary", "fixed", "global_local", "lsh", "linear", "performer", "rfa"})
    if (kind == other) return false;
  return true;
}

// Tests a fifth of the modes with each attention type; with LONGSPAN_ALL all of them.
TEST(MemoryModes, MatchesReadmeForEveryAttentionType) {
  const std::size_t step = std::getenv("LONGSPAN_ALL") == nullptr ? 5 : 1;
  const std::vector<Modes> modes_of_all = all_modes();
  std::size_t first = 0;
  for (const std::string kind : {"full",
                                 "sliding_window",
                                 "dilated",
                                 "strided",
                                 "block",
                                 "summary",
                                 "fixed",
                                 "global_local",
                                 "lsh",
                                 "linear",
                                 "performer",
                                 "rfa",
                                 "sliding_window/strided",
                                 "sliding_window+strided"}) {
    for (std::size_t i = first++ % step; i < modes_of_all.size(); i += step) {
      const Modes& modes = modes_of_all[i];
      if (modes.family == "transformer_xl" && !supports_memory(kind)) continue;
      const std::string found = refusal(modes, {"model.attention.layer_types=" + kind});
      EXPECT_EQ(found.empty(), modes.is_allowed())
          << kind << " " << fmt::format("{}", fmt::join(modes.settings(), " ")) << "\n"
          << found;
    }
  }
}

TEST(MemoryModes, MatchesReadmeOnEveryLayout) {
  const std::vector<std::vector<std::string>> layouts = {
      {"parallel.data_parallel_size=4"},
      {"parallel.tensor_parallel_size=2"},
      {"parallel.tensor_parallel_size=2", "parallel.sequence_parallel=true"},
      {"parallel.context_parallel_size=2"},
      {"parallel.data_parallel_size=2",
       "parallel.context_parallel_size=2",
       "parallel.tensor_parallel_size=2",
       "parallel.zero_stage=2"}};
  for (const std::vector<std::string>& layout : layouts)
    for (const Modes& modes : all_modes()) {
      const std::string found = refusal(modes, layout);
      EXPECT_EQ(found.empty(), modes.is_allowed())
          << fmt::format("{} {}", fmt::join(layout, " "), fmt::join(modes.settings(), " ")) << "\n"
          << found;
    }
}

TEST(MemoryModes, ReadmeListsInvalidCombinations) {
  std::ifstream file(LONGSPAN_SOURCE_DIRECTORY "/configs/README.md");
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  for (const char* sentence :
       {"can be combined with every family, every attention type that the family supports and "
        "every layout",
        "Chunks can be combined with everything. These settings cannot be combined: ",
        "- `memory.recompute_granularity` and `model.residual.type: reversible`: ",
        "- `model.residual.type: reversible` and `model.norm.position: post`: ",
        "- `model.residual.reversible_output: concat` and tied embeddings: ",
        "- `memory.reconstruction_check_interval` and `model.residual.type: standard`: "})
    EXPECT_NE(page.find(sentence), std::string::npos) << sentence;
}

}  // namespace
}  // namespace longspan::memory_modes_test
