// The Universal Transformer matches one process on every layout and in every memory mode, including
// its halting steps.
#include "models/universal_transformer.h"
#include "tests/models/equality_testing.h"

namespace longspan::universal_transformer_mesh_test {
namespace {

using testing::dropped_options;
using testing::Kind;

Kind universal(const std::string& name, const UniversalTransformerOptions& options) {
  return {.name = "universal_transformer, " + name,
          .make =
              [=](ResidualKind residual, const ModelBuildOptions& setting) {
                UniversalTransformerOptions own = options;
                own.common.residual = residual;
                return make_universal_transformer(own, setting);
              },
          .two_streams = options.count == RecurrenceType::fixed};
}

std::vector<Kind> kinds() {
  UniversalTransformerOptions fixed;
  fixed.common = dropped_options(NormPosition::pre);
  // Key biases have zero gradient up to rounding, which Adam amplifies; small weights keep the
  // error below the bound.
  fixed.common.initial_deviation = 0.04;
  fixed.halting.steps = 2;
  fixed.signals.max_position_shift = 7;
  UniversalTransformerOptions adaptive = fixed;
  adaptive.count = RecurrenceType::adaptive;
  adaptive.common.initial_deviation = 0.1;
  adaptive.halting = {.steps = 3, .bias = -0.5};
  adaptive.common.norm = NormPosition::post;
  UniversalTransformerOptions before = adaptive;
  before.common.norm = NormPosition::pre;
  before.positions.kind = PositionEmbeddingType::learned;
  before.signals = {.kind = StepTimingSignalType::learned};
  before.halting.reads = ActOptions::Reads::before;
  before.halting.output = ActOptions::Output::interpolated;
  before.halting.freeze = before.halting.remainder_at_end = false;
  return {universal("fixed", fixed),
          universal("adaptive", adaptive),
          universal("adaptive as tensor2tensor", before)};
}

TEST(UniversalTransformerLayouts, EveryModelMatchesOneProcess) {
  testing::expect_equal(kinds(), testing::layouts(), {.steps = 2});
}

}  // namespace
}  // namespace longspan::universal_transformer_mesh_test
