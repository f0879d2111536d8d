#include "framework/train/run_options.h"

#include <gtest/gtest.h>

#include "framework/core/options.h"

namespace longspan {
namespace {

std::string refusal(const ParallelOptions& options, int ranks) {
  try {
    mesh_shape(options, ranks);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(RunOptions, TheDataAxisFillsTheRanks) {
  ParallelOptions options;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{6, 1, 1}));
  options.tensor = 2;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{3, 1, 2}));
  options.data = 3;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{3, 1, 2}));
}

TEST(RunOptions, RanksThatDoNotFitAreRefused) {
  ParallelOptions options;
  options.tensor = 4;
  EXPECT_EQ(refusal(options, 6),
            "the job has 6 ranks, which do not divide by parallel.context 1 x parallel.tensor 4");
  options.data = 2;
  EXPECT_EQ(refusal(options, 4),
            "parallel.data 2 x parallel.context 1 x parallel.tensor 4 is 8 ranks; the job has 4");
}

TEST(RunOptions, WhatThisVersionCannotDoIsRefused) {
  ParallelOptions parallel;
  PrecisionOptions precision;
  OptionTable table;
  declare(table, parallel);
  declare(table, precision);
  int line = 0;
  const auto given = [&](const std::string& key, const std::string& text) {
    return Assignment{key, Assignment::Kind::scalar, {{text, false}}, {"a.yaml", ++line, 1}};
  };
  table.assign(std::vector<Assignment>{given("parallel.sequence", "true"),
                                       given("precision.loss_scale", "1000")});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(
        error.what(),
        "a.yaml:1:1: parallel.sequence: found true with parallel.tensor 1; it divides activations "
        "over the tensor ranks, of which it needs at least 2\n"
        "a.yaml:2:1: precision.loss_scale: found 1000; wanted a power of two, which rounds "
        "nothing");
  }
}

}  // namespace
}  // namespace longspan
