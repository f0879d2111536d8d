// What is made of attention to a source is the same on every layout and in every memory mode.
#include "tests/models/equality_testing.h"
#include "tests/models/source_look_mesh_testing.h"

namespace longspan::source_look_mesh_test {
namespace {

using testing::Kind;
using testing::LookKind;

Kind kind_of(const LookKind& kind) {
  return {kind.name,
          [kind](ResidualKind residual, const ModelBuildOptions& setting) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.common.layers = 3;
            // The gradient of a bias of keys is rounding alone, of which Adam makes steps: small
            // weights keep them below the bound.
            options.common.initial_deviation = 0.05;
            if (residual == ResidualKind::plain && !kind.layer)
              options.common.norm = NormPosition::post;
            return testing::make_encoder_decoder(testing::with_look(options, kind), setting);
          },
          testing::looked_pairs};
}

TEST(SourceLookMesh, EveryKindInEveryModeOnEveryLayout) {
  std::vector<Kind> kinds;
  for (const LookKind& kind : testing::look_kinds()) kinds.push_back(kind_of(kind));
  testing::expect_equal(kinds, testing::layouts(), {.steps = 2});
}

// Attention that is shown reads its norm a second time, which the averages follow once. By gradient
// descent, as Adam makes steps of the rounding that the gradient of a bias of keys is.
TEST(SourceLookMesh, AttentionThatMovesOnWithEachNorm) {
  std::vector<Kind> kinds;
  for (const NormKind norm : {NormKind::layer, NormKind::power}) {
    Kind kind = kind_of(testing::moving_on());
    kind.name += norm == NormKind::power ? ", power norms" : "";
    kind.make = [norm](ResidualKind residual, const ModelBuildOptions& setting) {
      EncoderDecoderOptions options;
      options.common = testing::dropped_options(NormPosition::pre);
      options.common.residual = residual;
      options.common.norm_kind = norm;
      options.common.power.warmup = 1;
      return testing::make_encoder_decoder(testing::with_look(options, testing::moving_on()),
                                           setting);
    };
    kinds.push_back(kind);
  }
  testing::expect_equal(
      kinds, testing::layouts(), {.steps = 3, .optimizer = {.kind = OptimizerKind::sgd}});
}

}  // namespace
}  // namespace longspan::source_look_mesh_test
