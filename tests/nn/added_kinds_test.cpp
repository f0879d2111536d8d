// Attention types that a program registers in addition to the built-in ones.
#include <gtest/gtest.h>

#include "framework/nn/attention/attention_kinds.h"

namespace longspan::added_kinds_test {
namespace {

AttentionKind own_kind(const std::string& name) {
  return {.name = name,
          .sees = "nothing",
          .alone = "it is alone",
          .make = [](const Scope&, const AttentionOptions&, const AttentionBuildOptions&) {
            return std::unique_ptr<AttentionOp>();
          }};
}

TEST(CustomAttentionKind, IsSelectedByName) {
  AttentionOptions options = {.kinds = {"own"}};
  const AttentionBuildOptions setting = {.layers = 2, .heads = 4};
  EXPECT_NE(problem_of(options, setting), "");
  options.added = {own_kind("own")};
  EXPECT_EQ(problem_of(options, setting), "");
  EXPECT_EQ(attention_kind(options, 0), &options.added.front());
  EXPECT_FALSE(reads_on(options));
  options.kinds = {"own/sliding_window"};
  EXPECT_EQ(problem_of(options, setting),
            "model.attention.layer_types: own in \"own/sliding_window\" cannot be combined with "
            "another type: it is alone");
  options.kinds = {"other"};
  EXPECT_NE(problem_of(options, setting).find(", own ("), std::string::npos);
}

TEST(CustomAttentionKind, ValidatesWithItsOwnFunction) {
  AttentionOptions options = {.kinds = {"own"}, .added = {own_kind("own")}};
  options.added.front().problem = [](const AttentionOptions&,
                                     const AttentionBuildOptions& setting) {
    return std::string(setting.causal ? "own looks ahead" : "");
  };
  EXPECT_EQ(problem_of(options, {.causal = true}), "own looks ahead");
  EXPECT_EQ(problem_of(options, {.causal = false}), "");
}

TEST(CustomAttentionKind, RejectsDuplicateNames) {
  for (const std::string name : {"own", "linear", "sliding_window"}) {
    const AttentionOptions options = {.added = {own_kind("own"), own_kind(name)}};
    EXPECT_EQ(problem_of(options, {}), "attention type " + name + " already exists");
  }
}

TEST(CustomAttentionKind, RejectsEmptyNamesAndSeparators) {
  for (const std::string name : {"", "own/other", "own+", "own,other"}) {
    const AttentionOptions options = {.added = {own_kind(name)}};
    EXPECT_EQ(problem_of(options, {}),
              "attention type \"" + name + "\": expected a name without / + and ,");
  }
}

TEST(CustomAttentionKind, RequiresMakeFunction) {
  AttentionOptions options = {.added = {own_kind("own")}};
  options.added.front().make = nullptr;
  EXPECT_EQ(problem_of(options, {}), "attention type own: `make` is missing");
}

}  // namespace
}  // namespace longspan::added_kinds_test
