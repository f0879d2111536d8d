#include "framework/nn/memory_options.h"

#include <gtest/gtest.h>

#include "framework/options/options.h"

namespace longspan::memory_options_test {
namespace {

struct Read {
  Recomputation recomputation;
  std::vector<std::string> warnings;
};

Read read(const std::string& granularity, const std::string& layers = "1") {
  MemoryOptions options;
  OptionTable table;
  declare(table, options);
  const auto assigned = [](const std::string& key, const std::string& text) {
    return Assignment{key, Assignment::Kind::scalar, {{text, false}}, {}};
  };
  table.assign(std::vector<Assignment>{assigned("memory.recompute_granularity", granularity),
                                       assigned("memory.recompute_num_layers", layers)});
  table.finish();
  return {options.recomputation(), table.warnings()};
}

TEST(MemoryOptions, ReadsRecomputation) {
  EXPECT_EQ(read("none").recomputation.granularity, RecomputeGranularity::none);
  EXPECT_EQ(read("selective").recomputation.granularity, RecomputeGranularity::selective);
  EXPECT_EQ(read("full").recomputation.granularity, RecomputeGranularity::full);
  EXPECT_EQ(read("full").recomputation.num_layers, 1);
  EXPECT_EQ(read("full", "3").recomputation.num_layers, 3);
  EXPECT_EQ(read("selective", "3").recomputation.num_layers, 1);
}

TEST(MemoryOptions, WarnsWhenNumLayersIsIgnored) {
  EXPECT_EQ(read("full", "3").warnings, std::vector<std::string>());
  EXPECT_EQ(read("selective", "3").warnings,
            std::vector<std::string>{"--set: memory.recompute_num_layers is ignored: "
                                     "memory.recompute_granularity is selective"});
}

TEST(MemoryOptions, RejectsUnknownGranularityAndZeroLayers) {
  EXPECT_THROW(read("layers"), ConfigurationError);
  EXPECT_THROW(read("every 3"), ConfigurationError);
  EXPECT_THROW(read("full", "0"), ConfigurationError);
}

}  // namespace
}  // namespace longspan::memory_options_test
