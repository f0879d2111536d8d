// Encoder-decoders train on every layout and in every memory mode as on one process.
#include "tests/models/encoder_decoder_testing.h"
#include "tests/models/equality_testing.h"

namespace longspan::encoder_decoder_mesh_test {
namespace {

using testing::Case;
using testing::Kind;

// Pairs of unequal lengths: each step has one empty row and one row without a source. The ranks
// divide neither length.
Batch pairs_of_step(const Case& c, int step, const StreamRange& range) {
  const std::vector<Lengths> all = {{5, 7}, {2, 3}, {0, 0}, {4, 1}, {0, 5}, {3, 6}};
  std::vector<Lengths> rows;
  Batch batch;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    rows.push_back(all[static_cast<std::size_t>(row + 2 * step) % all.size()]);
    batch.counts["tokens"] += rows.back().target;
  }
  batch.fields = testing::pair_fields(
      rows, {c.segment, c.segment + 2}, static_cast<std::uint64_t>(step), range.begin);
  batch.first_row = range.begin;
  batch.resets_state = true;
  batch.place = "in a test";
  return batch;
}

Kind kind(const std::string& name,
          CrossAttentionMapping wiring,
          const std::function<void(EncoderDecoderOptions&)>& change) {
  return {name,
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            EncoderDecoderOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.wiring = wiring;
            if (change) change(options);
            return testing::make_encoder_decoder(options, setting);
          },
          pairs_of_step};
}

std::vector<Kind> kinds() {
  using Options = EncoderDecoderOptions;
  return {
      kind("last",
           CrossAttentionMapping::last,
           [](Options& options) {
             options.encoder_layers = 3;
             options.common.tied_embeddings = false;
             if (options.common.residual == ResidualKind::plain)
               options.common.norm = NormPosition::post;
             if (options.common.residual == ResidualKind::reversible)
               options.common.reversible_output = StreamMerge::concatenate;
           }),
      kind("same, relative",
           CrossAttentionMapping::same,
           [](Options& options) {
             options.embeddings = Options::Embeddings::apart;
             options.positions = {.kind = PositionEmbeddingType::relative,
                                  .relative_max_distance = 2};
             // Key biases have zero gradient up to rounding, which Adam amplifies; small weights
             // keep the error below the bound.
             options.common.initial_deviation = 0.05;
           }),
      kind("last, as T5",
           CrossAttentionMapping::last,
           [](Options& options) {
             options.positions = {.kind = PositionEmbeddingType::relative_bias,
                                  .relative_max_distance = 3,
                                  .buckets = 4};
             options.common.scale_attn_weights = false;
             options.common.scale_decoder_outputs = true;
             options.common.norm_kind = NormKind::rms;
             options.common.key_heads = 2;
             options.common.initial_deviation = 0.05;  // as above
           }),
      kind("reverse, read as BART reads",
           CrossAttentionMapping::reverse,
           [](Options& options) {
             options.positions.kind = PositionEmbeddingType::learned;
             options.positions.longest = 7;
             options.positions.first = 2;
             options.input = {.scaled = false, .norm = true};
           }),
      kind("mix", CrossAttentionMapping::mix, [](Options& options) { options.encoder_layers = 3; }),
      kind("last, the encoder by linformer and local",
           CrossAttentionMapping::last,
           [](Options& options) {
             AttentionOptions& attention = options.common.attention;
             attention.encoder_kinds = {"linformer", "sliding_window"};
             attention.linformer = {.keys = 2, .longest = 8};
             attention.sliding_window = {3};
             options.common.initial_deviation = 0.05;  // as above
           }),
      kind("full",
           CrossAttentionMapping::full,
           [](Options& options) { options.encoder_layers = 4; }),
      kind("same, power norms",
           CrossAttentionMapping::same,
           [](Options& options) {
             options.common.norm_kind = NormKind::power;
             options.common.initial_deviation = 0.05;  // as above
             options.common.power.warmup = 1;
           }),
      kind("last, additive",
           CrossAttentionMapping::last,
           [](Options& options) {
             options.scores.kind = CrossAttentionScore::additive;
             options.common.attention.kinds = {"additive", "full"};
             options.common.initial_deviation = 0.05;  // as above
           }),
      kind("last, location", CrossAttentionMapping::last, [](Options& options) {
        options.scores = {.kind = CrossAttentionScore::location, .kernel_size = 3};
        options.common.attention.encoder_kinds = {"additive"};
        options.common.initial_deviation = 0.05;  // as above
      })};
}

std::vector<Kind> recurrent_kinds() {
  const auto recurrent = [](RecurrenceType count,
                            NormPosition norm,
                            Transition transition = Transition::feed_forward) {
    return [=](EncoderDecoderOptions& options) {
      options.recurrence.count = count;
      options.recurrence.transition = transition;
      options.recurrence.halting = {.steps = 3, .bias = -0.5};
      options.recurrence.signals.max_position_shift = 7;
      options.common.initial_deviation = 0.05;  // as above
      if (options.common.residual == ResidualKind::plain) options.common.norm = norm;
    };
  };
  std::vector<Kind> kinds = {
      kind("fixed steps",
           CrossAttentionMapping::last,
           recurrent(RecurrenceType::fixed, NormPosition::pre)),
      kind("adaptive steps",
           CrossAttentionMapping::last,
           recurrent(RecurrenceType::adaptive, NormPosition::post)),
      kind("separable convolutions",
           CrossAttentionMapping::last,
           recurrent(RecurrenceType::fixed, NormPosition::pre, Transition::separable_convolution))};
  kinds[1].two_streams = false;
  return kinds;
}

TEST(EncoderDecoderMesh, EveryRecurrenceMatchesOneProcessOnEveryLayout) {
  testing::expect_equal(recurrent_kinds(), testing::layouts(), {.steps = 2});
}

TEST(EncoderDecoderMesh, EveryLayerMappingMatchesOneProcessOnEveryLayout) {
  const std::vector<Kind> all = kinds();
  const testing::Mode chunks = {"chunks", ResidualKind::plain, {.bptt_chunk_length = 2}};
  EXPECT_EQ(std::ranges::count_if(
                all, [&](const Kind& kind) { return testing::supports(kind, chunks, {}); }),
            std::ssize(all) - 2)  // without power norms and location
      << "targets in chunks";
  testing::expect_equal(kinds(), testing::layouts(), {.steps = 3, .smoothing = {.share = 0.1}});
}

// Each rank accumulates over microbatches, one of which has no target.
TEST(EncoderDecoderMesh, AccumulationMatchesOneProcess) {
  testing::expect_equal({kinds().front(), kinds()[1], kinds()[3]},
                        {{{.data = 2}, {0, 2}}, {{.context = 2, .tensor = 2}}},
                        {.accumulation = 2, .steps = 3});
}

// Several attention tiles, with sharded sequences or heads.
TEST(EncoderDecoderMesh, LongPairsMatchOneProcess) {
  std::vector<Kind> of_long_pairs = {
      kind("last", CrossAttentionMapping::last, {}),
      kind("last, relative",
           CrossAttentionMapping::last,
           [](EncoderDecoderOptions& options) {
             options.positions.kind = PositionEmbeddingType::relative;
           }),
      kind("last, biases", CrossAttentionMapping::last, [](EncoderDecoderOptions& options) {
        options.positions = {.kind = PositionEmbeddingType::relative_bias,
                             .relative_max_distance = 128};
      })};
  const auto long_pairs = [](const Case& c, int step, const StreamRange& range) {
    Batch batch = pairs_of_step(c, step, range);
    const std::vector<Lengths> rows = {{150, 90}, {70, 152}};
    batch.fields = testing::pair_fields(rows, {c.segment, c.segment + 2}, 1);
    batch.counts["tokens"] = 90 + 152;
    return batch;
  };
  for (Kind& each : of_long_pairs) each.batch = long_pairs;
  testing::expect_equal(of_long_pairs,
                        {{{.context = 2}}, {{.context = 2, .tensor = 2, .sequence = true}}},
                        {.segment = 150, .streams = 2, .steps = 2});
}

}  // namespace
}  // namespace longspan::encoder_decoder_mesh_test
