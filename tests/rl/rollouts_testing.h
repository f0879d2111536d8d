// A small policy model and its rollouts, in float64.
#pragma once

#include "framework/modeling/heads.h"
#include "framework/rl/rollouts.h"
#include "framework/trainer/trainer.h"
#include "models/transformer_xl.h"
#include "tests/support/test_device.h"

namespace longspan::testing {

inline TransformerXlOptions acting_options(std::int64_t memory,
                                           ResidualKind residual = ResidualKind::gated) {
  return {.common = {.layers = 2,
                     .width = 12,
                     .heads = 4,
                     .feed_forward = 18,
                     .norm = NormPosition::pre,
                     .residual = residual,
                     .dropout = 0,
                     .initial_deviation = 0.3},
          .memory = memory};
}

inline std::unique_ptr<Model> acting_model(const TransformerXlOptions& options,
                                           const Environment& world,
                                           std::int64_t segment,
                                           const ProcessMesh& mesh = {},
                                           DType compute = DType::f64,
                                           const MemoryOptions& memory = {}) {
  return std::make_unique<Model>(ModelBuildOptions{.vocabulary = 256,
                                                   .classes = std::ssize(world.actions),
                                                   .is_policy = true,
                                                   .segment = segment,
                                                   .compute = compute,
                                                   .device = Device::cpu(),
                                                   .mesh = mesh,
                                                   .random = Random(1).child("weights"),
                                                   .memory = memory},
                                 transformer_xl_body(options),
                                 policy_head());
}

inline RolloutContext rollouts_in(const Environment& world,
                                  std::int64_t environments,
                                  std::int64_t segment,
                                  const RolloutOptions& options = {},
                                  const ProcessMesh& mesh = {}) {
  return {.lives = {.environment = world,
                    .rows = streams_of_rank(
                        environments, mesh.data.rank(), mesh.data.size(), "data.global_batch_size"),
                    .episodes = Random(1).child("episodes"),
                    .actions = Random(1).child("actions"),
                    .host = Device::cpu()},
          .environments = environments,
          .segment = segment,
          .options = options};
}

inline std::vector<double> reals(const Batch& batch, const char* name) {
  const auto values = batch.field(name).span<double>();
  return {values.begin(), values.end()};
}
inline std::vector<std::int64_t> integers(const Batch& batch, const char* name) {
  const auto values = batch.field(name).span<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace longspan::testing
