// Non-autoregressive decoders train on every layout as on one process.
#include "tests/models/equality_testing.h"
#include "tests/models/source_look_mesh_testing.h"

namespace longspan::non_autoregressive_decoder_mesh_test {
namespace {

using testing::Kind;

Kind kind_of(const char* name,
             CrossAttentionMapping wiring,
             const NatOptions& masking,
             GuidedAttentionType guide = GuidedAttentionType::none) {
  return {name,
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            // Key biases have zero gradient up to rounding, which Adam amplifies; small weights
            // keep the error below the bound.
            options.common.initial_deviation = 0.05;
            options.decoder = EncoderDecoderOptions::Decoder::masked;
            options.wiring = wiring;
            options.masking = masking;
            options.source.guide = guide;
            return testing::make_encoder_decoder(options, setting);
          },
          testing::batch_of_pairs};
}

TEST(NonAutoregressiveDecoderMesh, EveryModelMatchesOneProcessOnLayouts) {
  const NatOptions all = {
      .masking = NatObjective::refined, .first = NatDecoderInput::source, .passes = 3};
  NatOptions one = all;
  one.one_pass = one.length_detached = true;
  testing::expect_equal({kind_of("masked", CrossAttentionMapping::last, {}),
                         kind_of("masked, guided",
                                 CrossAttentionMapping::mix,
                                 {.length_offset = false},
                                 GuidedAttentionType::diagonal),
                         kind_of("refined", CrossAttentionMapping::last, all),
                         kind_of("refined, one pass", CrossAttentionMapping::full, one)},
                        {{{.data = 2}, {0, 2}},
                         {{.tensor = 2}},
                         {{.context = 2}},
                         {{.context = 2, .tensor = 2, .sequence = true}}},
                        {.steps = 2, .smoothing = {.share = 0.1}});
}

}  // namespace
}  // namespace longspan::non_autoregressive_decoder_mesh_test
