// What configs/README.md says of the memory modes: which go together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "launch/configuration.h"

namespace longspan::memory_modes_test {
namespace {

struct Modes {
  std::string family;
  std::string recompute;
  bool reversible = false;
  bool post_norm = false;
  bool chunks = false;
  bool concatenates = false;
  bool ties = false;
  bool measures = false;

  // By the sentences of configs/README.md.
  bool go_together() const {
    if (recompute != "none" && reversible) return false;
    if (reversible && post_norm) return false;
    if (concatenates && (ties || !reversible)) return false;
    return !measures || reversible;
  }

  std::vector<std::string> settings() const {
    std::vector<std::string> set = {
        "model.family=" + family,
        "memory.recompute=" + recompute,
        fmt::format("model.residual={}", reversible ? "reversible" : "plain"),
        fmt::format("model.norm={}", post_norm ? "post" : "pre"),
        fmt::format("model.reversible_output={}", concatenates ? "concatenate" : "mean"),
        fmt::format("model.tied_embeddings={}", ties),
        fmt::format("memory.reconstruction_check_every={}", measures ? 5 : 0)};
    if (chunks) {
      set.push_back("memory.feed_forward_chunks=8");
      set.push_back("memory.loss_chunks=8");
    }
    return set;
  }
};

std::vector<Modes> all_modes() {
  std::vector<Modes> all;
  for (const char* family : {"transformer_xl", "decoder"})
    for (const char* recompute : {"none", "attention", "layer", "every 2"})
      for (int bits = 0; bits < 64; ++bits)
        all.push_back({family,
                       recompute,
                       (bits & 1) != 0,
                       (bits & 2) != 0,
                       (bits & 4) != 0,
                       (bits & 8) != 0,
                       (bits & 16) != 0,
                       (bits & 32) != 0});
  return all;
}

// "" where they go together.
std::string refusal(const Modes& modes, const std::vector<std::string>& others) {
  std::vector<std::string> set = modes.settings();
  set.insert(set.end(), others.begin(), others.end());
  try {
    configure({.file = "a.yaml",
               .text = "run: {directory: r}\nmodel: {layers: 2}\ndata: {train: t}\n",
               .settings = set});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

bool goes_with_memory(const std::string& kind) {
  for (const char* other :
       {"block", "summary", "fixed", "global", "lsh", "linear", "performer", "random_features"})
    if (kind == other) return false;
  return true;
}

// A fifth of the modes under each kind, each of them under some; with LONGSPAN_ALL all of them.
TEST(MemoryModes, GoTogetherAsThePageSaysUnderEveryKindOfAttention) {
  const std::size_t step = std::getenv("LONGSPAN_ALL") == nullptr ? 5 : 1;
  const std::vector<Modes> modes_of_all = all_modes();
  std::size_t first = 0;
  for (const std::string kind : {"causal",
                                 "local",
                                 "dilated",
                                 "strided",
                                 "block",
                                 "summary",
                                 "fixed",
                                 "global",
                                 "lsh",
                                 "linear",
                                 "performer",
                                 "random_features",
                                 "local/strided",
                                 "local+strided"}) {
    for (std::size_t i = first++ % step; i < modes_of_all.size(); i += step) {
      const Modes& modes = modes_of_all[i];
      if (modes.family == "transformer_xl" && !goes_with_memory(kind)) continue;
      const std::string found = refusal(modes, {"model.attention=" + kind});
      EXPECT_EQ(found.empty(), modes.go_together())
          << kind << " " << fmt::format("{}", fmt::join(modes.settings(), " ")) << "\n"
          << found;
    }
  }
}

TEST(MemoryModes, GoTogetherAsThePageSaysOnEveryLayout) {
  const std::vector<std::vector<std::string>> layouts = {
      {"parallel.data=4"},
      {"parallel.tensor=2"},
      {"parallel.tensor=2", "parallel.sequence=true"},
      {"parallel.context=2"},
      {"parallel.data=2", "parallel.context=2", "parallel.tensor=2", "parallel.zero=2"}};
  for (const std::vector<std::string>& layout : layouts)
    for (const Modes& modes : all_modes()) {
      const std::string found = refusal(modes, layout);
      EXPECT_EQ(found.empty(), modes.go_together())
          << fmt::format("{} {}", fmt::join(layout, " "), fmt::join(modes.settings(), " ")) << "\n"
          << found;
    }
}

TEST(MemoryModes, ThePageNamesWhatDoesNotGoTogether) {
  std::ifstream file(LONGSPAN_SOURCE_DIRECTORY "/configs/README.md");
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  for (const char* sentence :
       {"Each goes with every family, with every attention kind that the family takes and with "
        "every layout",
        "Chunks go with everything. Not together go: ",
        "- `memory.recompute` and `model.residual: reversible`, ",
        "- `model.residual: reversible` and `model.norm: post`: ",
        "- `model.reversible_output: concatenate` and tied embeddings, ",
        "- `memory.reconstruction_check_every` and `model.residual: plain`, "})
    EXPECT_NE(page.find(sentence), std::string::npos) << sentence;
}

}  // namespace
}  // namespace longspan::memory_modes_test
