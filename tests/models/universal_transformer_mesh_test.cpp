// The Universal Transformer matches one process on every layout and in every memory mode, including
// its halting steps.
#include "models/universal_transformer.h"
#include "tests/models/kinds_testing.h"

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
  UniversalTransformerOptions convolution = fixed;
  convolution.transition = Transition::separable_convolution;
  UniversalTransformerOptions adaptive_convolution = adaptive;
  adaptive_convolution.transition = Transition::separable_convolution;
  adaptive_convolution.kernel_sizes = {1, 3};
  return {universal("fixed", fixed),
          universal("adaptive", adaptive),
          universal("adaptive as tensor2tensor", before),
          universal("separable convolution", convolution),
          universal("adaptive, separable convolution", adaptive_convolution)};
}

TEST(UniversalTransformerLayouts, EveryModelMatchesOneProcess) {
  testing::expect_equal(kinds(), testing::layouts(), {.steps = 2});
}

// Packed documents cut the taps, also at the borders of the ranks. Kernels longer than the ranks'
// ranges read rows of several ranks.
TEST(UniversalTransformerLayouts, ConvolutionsMatchOneProcess) {
  UniversalTransformerOptions options;
  options.common = dropped_options(NormPosition::pre);
  options.common.initial_deviation = 0.04;
  options.transition = Transition::separable_convolution;
  options.positions.kind = PositionEmbeddingType::alibi;
  options.halting.steps = 2;
  UniversalTransformerOptions long_kernels = options;
  long_kernels.kernel_sizes = {9, 7};
  testing::expect_equal(
      {testing::with_documents(universal("convolution, documents", options), 5),
       universal("long kernels", long_kernels)},
      {{{.context = 2}}, {{.context = 4}}, {{.context = 2, .tensor = 2, .sequence = true}}},
      {.segment = 9, .steps = 2});
}

}  // namespace
}  // namespace longspan::universal_transformer_mesh_test
