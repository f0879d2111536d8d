// Equality matrix: every attention type in every memory mode trains on every layout as on one
// process. A new type, mode or layout is one line.
#include <fmt/format.h>

#include "tests/models/equality_testing.h"

namespace longspan::equality_matrix_mesh_test {
namespace {

using testing::Bounds;
using testing::Case;
using testing::dropped_options;
using testing::expect_equal;
using testing::expect_same_training;
using testing::Kind;
using testing::Layout;
using testing::layouts;
using testing::Mode;
using testing::train;
using testing::Trained;
using testing::with;

// Each type masks some keys of the segment and has several blocks.
AttentionOptions short_attention(std::vector<std::string> names) {
  return {.kinds = std::move(names),
          .sliding_window = {2},
          .stride = 2,
          .summary = 1,
          .global = {1},
          .random = 1,
          .block = 1,
          .lsh = {.chunk = 2},
          .routing = {.clusters = 2, .width = 3},
          .sinkhorn = {.block = 2}};
}

AttentionOptions long_attention(std::vector<std::string> names) {
  return {.kinds = std::move(names),
          .sliding_window = {41},
          .stride = 16,
          .summary = 3,
          .summary_groups = 2,
          .global = {1, 70},
          .random = 1,
          .block = 16,
          .lsh = {.chunk = 16},
          .routing = {.clusters = 9},
          .sinkhorn = {.block = 16}};
}

Kind decoder(const AttentionOptions& attention,
             std::int64_t heads = 4,
             PositionEmbeddingType positions = PositionEmbeddingType::sinusoidal) {
  return {fmt::format("decoder, {}{}",
                      fmt::join(attention.kinds, ", "),
                      attention.global_projections ? " with projections" : ""),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.heads = heads;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions.kind = positions;
            return make_decoder(options, setting);
          }};
}

Kind transformer_xl(const AttentionOptions& attention, std::int64_t memory) {
  return {fmt::format("transformer_xl, {}", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            TransformerXlOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.common.reversible_output =
                residual == ResidualKind::reversible ? StreamMerge::concatenate : StreamMerge::mean;
            options.common.tied_embeddings = false;
            options.common.attention = attention;
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

// Adaptive spans per head or per token.
Kind with_spans(const AttentionOptions& attention,
                const AdaptiveSpanOptions& form,
                std::int64_t memory,
                SpanKind kind = SpanKind::adaptive) {
  const SpanOptions spans = {.kind = kind, .form = form, .penalty = 0.05};
  return {fmt::format("{}, spans{}",
                      memory > 0 ? "transformer_xl" : "decoder",
                      kind == SpanKind::dynamic ? " of tokens" : ""),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto common = [&] {
              ModelOptions options = dropped_options(NormPosition::pre);
              options.residual = residual;
              options.attention = attention;
              options.norm_kind = NormKind::rms;
              return options;
            };
            if (memory > 0) {
              TransformerXlOptions options;
              options.common = common();
              options.memory = memory;
              options.spans = spans;
              return make_transformer_xl(options, setting);
            }
            DecoderOptions options;
            options.common = common();
            options.spans = spans;
            return make_decoder(options, setting);
          }};
}

// Rotary position embeddings.
Kind with_rotary(const AttentionOptions& attention, const RotaryOptions& rope) {
  return {fmt::format("decoder, {}, rotary", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.head_width = 6;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions = {.kind = PositionEmbeddingType::rotary, .rope = rope};
            return make_decoder(options, setting);
          }};
}

// Options of Llama and Qwen: RoPE, grouped keys, QK norm, SwiGLU.
Kind llama_style(const AttentionOptions& attention) {
  return {fmt::format("decoder of today, {}", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.head_width = 6;
            options.common.key_heads = 2;
            options.common.query_key_norm = true;
            options.common.norm_kind = NormKind::rms;
            options.common.attention_bias = {"query", "key", "value"};
            options.common.activation = FeedForwardActivation::swiglu;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions = {.kind = PositionEmbeddingType::rotary};
            return make_decoder(options, setting);
          }};
}

// Attention sinks, softcapping and parallel sublayers.
Kind with_sinks_and_caps(const AttentionOptions& attention, std::int64_t memory) {
  return {fmt::format("{}, {}, sinks and caps",
                      memory > 0 ? "transformer_xl" : "decoder",
                      fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto change = [&](ModelOptions& options) {
              options = dropped_options(NormPosition::pre);
              options.key_heads = 2;
              options.residual = residual;
              options.attention = attention;
              options.attention_sinks = true;
              options.score_cap = 0.5;
              options.logit_cap = 2;
              options.use_parallel_residual = true;
            };
            if (memory == 0) {
              DecoderOptions options;
              change(options.common);
              return make_decoder(options, setting);
            }
            TransformerXlOptions options;
            change(options.common);
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

// T5: one relative-bias table for all layers, unscaled scores, scaled logits.
Kind with_biases(const AttentionOptions& attention, std::int64_t reach, std::int64_t buckets) {
  return {fmt::format("decoder, {}, biases by distance", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.key_heads = 2;
            options.common.residual = residual;
            options.common.attention = attention;
            options.common.scale_attn_weights = false;
            options.common.scale_decoder_outputs = true;
            options.positions = {.kind = PositionEmbeddingType::relative_bias,
                                 .relative_max_distance = reach,
                                 .buckets = buckets};
            return make_decoder(options, setting);
          }};
}

// Layer 1 of 2 has a loss only in the first step.
Kind with_inner_losses() {
  return {"decoder, inner losses", [](ResidualKind residual, const ModelBuildOptions& given) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.positions.kind = PositionEmbeddingType::learned;
            options.positions_each_layer = true;
            options.auxiliary = {.inner = AuxiliaryLossOptions::Inner::drop, .targets = 2};
            ModelBuildOptions setting = given;
            setting.steps = 3;
            return make_decoder(options, setting);
          }};
}

// Rows hold documents of about `length` tokens that span segments and do not attend to each other.
Kind with_documents(Kind kind, std::int64_t length) {
  kind.name += ", documents apart";
  kind.batch = [length](const Case& c, int step, const StreamRange& range) {
    Batch batch = testing::batch_of(c, step, range);
    const Tensor places = batch.field("tokens").empty_like();
    std::int64_t* to = places.data<std::int64_t>();
    for (std::int64_t row = range.begin; row < range.end; ++row)
      for (std::int64_t i = 0; i < c.segment; ++i)
        *to++ = (step * c.segment + i) % (length + 2 * row);
    batch.fields["document_position"] = places;
    return batch;
  };
  return kind;
}

// Step 1 uses batch statistics (warm-up), step 2 the running statistics.
Kind with_power_norms(std::int64_t memory) {
  return {fmt::format("{}, power norms", memory > 0 ? "transformer_xl" : "decoder"),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto change = [&](ModelOptions& options) {
              options = dropped_options(NormPosition::pre);
              options.residual = residual;
              options.norm_kind = NormKind::power;
              options.power.warmup = 1;
            };
            if (memory == 0) {
              DecoderOptions options;
              change(options.common);
              if (residual == ResidualKind::plain) options.common.norm = NormPosition::post;
              return make_decoder(options, setting);
            }
            TransformerXlOptions options;
            change(options.common);
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

std::vector<Kind> kinds() {
  std::vector<Kind> all = {
      transformer_xl(short_attention({"full"}), 3),
      transformer_xl(short_attention({"sliding_window", "strided/dilated"}), 3)};
  for (const char* const name : {"full",
                                 "sliding_window",
                                 "strided",
                                 "sliding_window+strided",
                                 "dilated",
                                 "fixed",
                                 "block",
                                 "summary",
                                 "global_local",
                                 "lsh",
                                 "linear",
                                 "performer",
                                 "rfa",
                                 "routing",
                                 "sinkhorn",
                                 "memory_compressed",
                                 "additive"})
    all.push_back(decoder(short_attention({name})));
  AttentionOptions projected = short_attention({"global_local/full"});
  projected.global_projections = true;
  all.push_back(decoder(projected));
  const AdaptiveSpanOptions spans = {.limit = 4, .ramp = 2, .initial = 1.3};
  all.push_back(with_spans(short_attention({"full"}), spans, 0));
  all.push_back(with_spans(short_attention({"full", "strided"}), spans, 3));
  AttentionOptions strict = short_attention({"routing"});
  strict.routing.strict = true;
  all.push_back(decoder(strict));
  for (const std::vector<std::string>& scores : std::vector<std::vector<std::string>>{
           {"dense", "dot_product"}, {"random", "factorized_random", "factorized_dense"}}) {
    AttentionOptions synthesizer = short_attention({"synthesizer"});
    synthesizer.synthesizer.scores = scores;
    all.push_back(decoder(synthesizer));
  }
  all.push_back(with_spans(short_attention({"full"}), spans, 0, SpanKind::dynamic));
  all.push_back(with_rotary(short_attention({"full", "sliding_window/strided"}), {.share = 0.7}));
  all.push_back(with_rotary(short_attention({"lsh", "performer"}),
                            {.base = 50,
                             .pairs = RotaryLayout::neighbors,
                             .scaling = RotaryScaling::dynamic,
                             .factor = 2,
                             .original = 3}));
  all.push_back(llama_style(short_attention({"full", "global_local"})));
  all.push_back(with_inner_losses());
  all.push_back(with_power_norms(0));
  all.push_back(with_power_norms(3));
  all.push_back(with_sinks_and_caps(short_attention({"full", "strided"}), 0));
  all.push_back(with_sinks_and_caps(short_attention({"full", "sliding_window"}), 3));
  all.push_back(with_biases(short_attention({"full", "sliding_window/strided"}), 3, 4));
  all.push_back(with_documents(transformer_xl(short_attention({"full", "sliding_window"}), 3), 4));
  all.push_back(with_documents(decoder(short_attention({"full"})), 2));
  all.push_back(with_documents(with_rotary(short_attention({"full", "strided"}), {}), 3));
  return all;
}

// The segment divides neither by the tensor ranks nor into the chunks of the context ranks:
// sequence shards are uneven.
TEST(EqualityMatrix, EveryModelMatchesOneProcessOnEveryLayout) {
  expect_equal(kinds(), layouts(), {.steps = 2});
}

// Several attention tiles, strides and sorted chunks, with sharded sequences or heads.
TEST(EqualityMatrix, LongSegmentsMatchOneProcess) {
  const std::vector<Kind> long_kinds = {
      transformer_xl(long_attention({"full", "sliding_window+strided"}), 140),
      decoder(long_attention({"full", "global_local"})),
      decoder(long_attention({"strided/sliding_window", "sliding_window+strided"})),
      decoder(long_attention({"fixed", "dilated"})),
      decoder(long_attention({"lsh"})),
      decoder(long_attention({"linear", "performer"})),
      decoder(long_attention({"rfa", "performer"})),
      with_spans(long_attention({"full"}), {.limit = 200, .ramp = 30, .initial = 20}, 0),
      with_spans(long_attention({"full"}), {.limit = 200, .ramp = 30, .initial = 20}, 140),
      decoder(long_attention({"routing", "sinkhorn"})),
      with_spans(long_attention({"full"}),
                 {.limit = 200, .ramp = 30, .initial = 20},
                 0,
                 SpanKind::dynamic),
      llama_style(long_attention({"strided/sliding_window", "sliding_window+strided"})),
      with_biases(long_attention({"full", "sliding_window+strided"}), 40, 16),
      with_documents(transformer_xl(long_attention({"full", "sliding_window+strided"}), 140), 61),
      with_documents(decoder(long_attention({"full"}), 4, PositionEmbeddingType::learned), 37)};
  expect_equal(long_kinds,
               {{{.context = 2}},
                {{.tensor = 2, .sequence = true}},
                {{.context = 2, .tensor = 2, .sequence = true}, {2}}},
               {.segment = 150, .streams = 2, .steps = 2});
}

// Another order of sums rounds differently, and Adam amplifies rounding: later losses stand for the
// weights. With lsh in bf16, near ties change buckets, so only losses are compared.
TEST(EqualityMatrix, NarrowDtypesMatchOneProcessWithinRounding) {
  constexpr double any = std::numeric_limits<double>::infinity();
  struct Narrow {
    Kind kind;
    Mode mode = {"plain"};
    double bf16_gradients = 5e-2;
  };
  const std::vector<Narrow> models = {
      {decoder(long_attention({"lsh"})), {"reversible", ResidualKind::reversible}, any},
      {transformer_xl(long_attention({"full"}), 140)},
      {decoder(long_attention({"sliding_window"}))},
      {decoder(long_attention({"strided"}), 4, PositionEmbeddingType::relative)}};
  for (const Narrow& model : models)
    for (const auto& [compute, bounds] :
         {std::pair(DType::f32, Bounds{1e-6, 1e-4, any}),
          std::pair(DType::bf16, Bounds{1e-2, model.bf16_gradients, any})}) {
      const Case c =
          with(model.kind,
               model.mode,
               0,
               {.segment = 150, .streams = 2, .steps = 3, .compute = compute, .bounds = bounds});
      const Trained expected = train(c, ProcessMesh());
      testing::for_each_layout({{.context = 2}, {.tensor = 2, .sequence = true}},
                               [&](const ProcessMesh& mesh) {
                                 SCOPED_TRACE(name_of(c.compute));
                                 expect_same_training(c, expected, mesh);
                               });
    }
}

// Heads not divisible by the context ranks use ring attention; lsh sorts full sequences per head
// and is rejected.
TEST(EqualityMatrix, OnlyLshRequiresHeadsDivisibleByRanks) {
  const std::vector<Layout> shared = {{{.context = 2, .tensor = 2}}};
  expect_equal({decoder(long_attention({"strided/sliding_window", "sliding_window+strided"}), 2)},
               shared,
               {.segment = 150, .streams = 2, .steps = 2});
  testing::for_each_layout({shared.front().mesh}, [](const ProcessMesh& mesh) {
    const Case c = with(decoder(short_attention({"lsh"}), 2), {"plain"}, 0, {});
    try {
      c.make(c.setting(mesh));
      FAIL();
    } catch (const ConfigurationError& error) {
      EXPECT_STREQ(error.what(),
                   "model.num_attention_heads: attention type lsh requires a multiple of 2 x 2 "
                   "(tensor and context ranks), found 2");
    }
  });
}

}  // namespace
}  // namespace longspan::equality_matrix_mesh_test
