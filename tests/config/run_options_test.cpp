#include "framework/config/run_options.h"

#include <gtest/gtest.h>

#include "framework/optim/precision_options.h"
#include "framework/options/options.h"

namespace longspan::run_options_test {
namespace {

std::string refusal(const ParallelOptions& options, int ranks) {
  try {
    mesh_shape(options, ranks);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(RunOptions, DataAxisFillsRanks) {
  ParallelOptions options;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{6, 1, 1}));
  options.tensor = 2;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{3, 1, 2}));
  options.data = 3;
  EXPECT_EQ(mesh_shape(options, 6), (MeshShape{3, 1, 2}));
}

TEST(RunOptions, RejectsRankCountMismatch) {
  ParallelOptions options;
  options.tensor = 4;
  EXPECT_EQ(refusal(options, 6),
            "expected a multiple of 4 ranks (parallel.context_parallel_size 1 x "
            "parallel.tensor_parallel_size 4), found 6; run \"longspan launch -n 8 -- ...\" or "
            "\"mpirun -n 8 longspan ...\", or reduce these keys");
  options.data = 2;
  EXPECT_EQ(
      refusal(options, 4),
      "parallel.data_parallel_size 2 x parallel.context_parallel_size 1 x "
      "parallel.tensor_parallel_size 4: expected 8 ranks, found 4; run \"longspan launch -n 8 "
      "-- ...\" or \"mpirun -n 8 longspan ...\", or set these keys to a product of 4");
}

// The error of these settings, one per line of a.yaml.
std::string error_for(const std::vector<std::pair<std::string, std::string>>& settings) {
  ParallelOptions parallel;
  PrecisionOptions precision;
  OptionTable table;
  declare(table, parallel);
  declare(table, precision);
  std::vector<Assignment> assignments;
  for (const auto& [key, text] : settings)
    assignments.push_back({key,
                           Assignment::Kind::scalar,
                           {{text, false}},
                           {"a.yaml", static_cast<int>(assignments.size()) + 1, 1}});
  table.assign(assignments);
  try {
    table.finish();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(RunOptions, RejectsOptionsWithoutEffect) {
  EXPECT_EQ(error_for({{"parallel.sequence_parallel", "true"}}),
            "a.yaml:1:1: parallel.sequence_parallel: true requires parallel.tensor_parallel_size "
            "above 1, found 1");
  const std::string only = " requires precision.compute_dtype: float16, found ";
  EXPECT_EQ(error_for({{"precision.compute_dtype", "bfloat16"},
                       {"precision.loss_scale.init_scale", "1024"}}),
            "a.yaml:2:1: precision.loss_scale.init_scale: 1024" + only + "bfloat16");
  EXPECT_EQ(error_for({{"precision.loss_scale.growth_interval", "10"}}),
            "a.yaml:1:1: precision.loss_scale.growth_interval: 10" + only + "float32");
  EXPECT_EQ(error_for({{"precision.loss_scale.hysteresis", "1"}}),
            "a.yaml:1:1: precision.loss_scale.hysteresis: 1" + only + "float32");
  // A resolved configuration contains the default.
  EXPECT_EQ(error_for({{"precision.loss_scale.init_scale", "65536"}}), "");
}

TEST(RunOptions, RejectsInvalidLossScale) {
  EXPECT_EQ(error_for({{"precision.compute_dtype", "float16"},
                       {"precision.loss_scale.init_scale", "1024"}}),
            "");
  EXPECT_EQ(error_for({{"precision.compute_dtype", "float16"},
                       {"precision.loss_scale.init_scale", "1000"}}),
            "a.yaml:2:1: precision.loss_scale.init_scale: expected a power of two, found 1000");
}

TEST(RunOptions, RejectsNarrowGradientsForFloat64) {
  EXPECT_EQ(error_for({{"precision.compute_dtype", "float64"},
                       {"precision.grad_reduce_dtype", "bfloat16"}}),
            "a.yaml:2:1: precision.grad_reduce_dtype: bfloat16 cannot be combined with "
            "precision.compute_dtype: float64; change one of them");
  EXPECT_EQ(error_for({{"precision.compute_dtype", "float64"},
                       {"precision.grad_reduce_dtype", "float32"}}),
            "");
}

}  // namespace
}  // namespace longspan::run_options_test
