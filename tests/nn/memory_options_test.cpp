#include "framework/nn/memory_options.h"

#include <gtest/gtest.h>

#include "framework/core/options.h"

namespace longspan::memory_options_test {
namespace {

// What memory.recompute becomes, or the complaint.
std::string read(const std::string& key, const std::string& text) {
  MemoryOptions options;
  OptionTable table;
  declare(table, options);
  table.assign(std::vector<Assignment>{{key, Assignment::Kind::scalar, {{text, false}}, {}}});
  try {
    table.finish();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  const Recomputation again = options.recomputation();
  const std::string written = table.values().front().text;
  switch (again.kind) {
    case Recomputation::Kind::none:
      return "nothing, " + written;
    case Recomputation::Kind::attention:
      return "attention, " + written;
    case Recomputation::Kind::layers:
      return fmt::format("{} layers, {}", again.together, written);
  }
  return "";
}

TEST(MemoryOptions, RecomputationIsAWordOrEverySoManyLayers) {
  EXPECT_EQ(read("memory.recompute", "none"), "nothing, none");
  EXPECT_EQ(read("memory.recompute", "attention"), "attention, attention");
  EXPECT_EQ(read("memory.recompute", "layer"), "1 layers, layer");
  // "recompute: {every: 3}", and what the resolved configuration says of it.
  EXPECT_EQ(read("memory.recompute.every", "3"), "3 layers, \"every 3\"");
  EXPECT_EQ(read("memory.recompute", "every 3"), "3 layers, \"every 3\"");
}

TEST(MemoryOptions, OtherRecomputationsAreRefused) {
  const std::string allowed = "allowed: none, attention, layer or {every: number}";
  EXPECT_EQ(read("memory.recompute.every", "0"),
            "--set: memory.recompute: found \"every 0\"; " + allowed);
  EXPECT_EQ(read("memory.recompute.every", "two"),
            "--set: memory.recompute: found \"every two\"; " + allowed);
  EXPECT_EQ(read("memory.recompute.each", "2"),
            "--set: memory.recompute: found a section with the key \"each\"; " + allowed);
  EXPECT_EQ(read("memory.recompute", "layers"),
            "--set: memory.recompute: found \"layers\"; " + allowed + "; did you mean \"layer\"?");
}

}  // namespace
}  // namespace longspan::memory_options_test
