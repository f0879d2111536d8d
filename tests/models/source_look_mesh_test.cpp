// Cross-attention losses match one process on every layout and in every memory mode.
#include "tests/models/equality_testing.h"
#include "tests/models/source_look_mesh_testing.h"

namespace longspan::source_look_mesh_test {
namespace {

using testing::Kind;
using testing::LossCase;

Kind kind_of(const LossCase& kind) {
  return {kind.name,
          [kind](ResidualKind residual, const ModelBuildOptions& setting) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.common.layers = 3;
            // Key biases have zero gradient up to rounding, which Adam amplifies; small weights
            // keep the error below the bound.
            options.common.initial_deviation = 0.05;
            if (residual == ResidualKind::plain && !kind.layer)
              options.common.norm = NormPosition::post;
            return testing::make_encoder_decoder(testing::with_case(options, kind), setting);
          },
          testing::batch_of_pairs};
}

TEST(CrossAttentionWeightsMesh, EveryLossMatchesOneProcessOnEveryLayout) {
  std::vector<Kind> kinds;
  for (const LossCase& kind : testing::loss_cases()) kinds.push_back(kind_of(kind));
  testing::expect_equal(kinds, testing::layouts(), {.steps = 2});
}

// Guided attention reads its norm a second time, which must not update the statistics. SGD, since
// Adam amplifies the rounding of key-bias gradients.
TEST(CrossAttentionWeightsMesh, MonotonicGuideMatchesOneProcessWithEachNorm) {
  std::vector<Kind> kinds;
  for (const NormKind norm : {NormKind::layer, NormKind::power}) {
    Kind kind = kind_of(testing::monotone());
    kind.name += norm == NormKind::power ? ", power norms" : "";
    kind.make = [norm](ResidualKind residual, const ModelBuildOptions& setting) {
      EncoderDecoderOptions options;
      options.common = testing::dropped_options(NormPosition::pre);
      options.common.residual = residual;
      options.common.norm_kind = norm;
      options.common.power.warmup = 1;
      return testing::make_encoder_decoder(testing::with_case(options, testing::monotone()),
                                           setting);
    };
    kinds.push_back(kind);
  }
  testing::expect_equal(
      kinds, testing::layouts(), {.steps = 3, .optimizer = {.kind = OptimizerKind::sgd}});
}

}  // namespace
}  // namespace longspan::source_look_mesh_test
