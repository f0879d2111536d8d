// Scheduled sampling matches one process on every layout and in every memory mode.
#include "tests/models/equality_testing.h"
#include "tests/models/source_look_mesh_testing.h"

namespace longspan::scheduled_sampling_mesh_test {
namespace {

using testing::Kind;

Kind kind_of(const char* name,
             const ScheduledSampling& sampling,
             const CrossAttentionLossOptions& source) {
  return {name,
          [=](ResidualKind residual, const ModelBuildOptions& given) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            // Key biases have zero gradient up to rounding, which Adam amplifies; small weights
            // keep the error below the bound.
            options.common.initial_deviation = 0.05;
            options.source = source;
            ModelBuildOptions setting = given;
            setting.sampling = sampling;
            return testing::make_encoder_decoder(options, setting);
          },
          testing::batch_of_pairs};
}

TEST(ScheduledSamplingMesh, EveryMethodMatchesOneProcessOnLayouts) {
  using enum ScheduledSamplingMethod;
  const ScheduledSampling sampled = {.mixing = parallel,
                                     .guess = ScheduledSamplingPrediction::sample,
                                     .passes = 2,
                                     .schedule = GoldProbabilitySchedule::linear,
                                     .start = 0.6,
                                     .decay = 0.1};
  ScheduledSampling noisy = sampled, sparse = sampled;
  noisy.mixing = sparse.mixing = two_pass;
  noisy.guess = ScheduledSamplingPrediction::gumbel;
  sparse.guess = ScheduledSamplingPrediction::sparsemax;
  sparse.temperature = 1.0 / 3;
  // Sequential sampling equals parallel sampling with more passes. ZeRO has no effect here.
  testing::expect_equal({kind_of("parallel", sampled, {}),
                         kind_of("two passes, Gumbel", noisy, {}),
                         kind_of("two passes, sparse, copied", sparse, {.copies = true})},
                        {{{.data = 2}},
                         {{.tensor = 2}},
                         {{.context = 2}},
                         {{.context = 2, .tensor = 2, .sequence = true}}},
                        {.steps = 2});
}

}  // namespace
}  // namespace longspan::scheduled_sampling_mesh_test
