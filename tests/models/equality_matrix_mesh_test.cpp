// Equality matrix: every attention type in every memory mode trains on every layout as on one
// process. A new type, mode or layout is one line.
#include "tests/models/kinds_testing.h"

namespace longspan::equality_matrix_mesh_test {
namespace {

using testing::Bounds;
using testing::Case;
using testing::decoder;
using testing::expect_equal;
using testing::expect_same_training;
using testing::Kind;
using testing::kinds;
using testing::Layout;
using testing::layouts;
using testing::llama_style;
using testing::long_attention;
using testing::Mode;
using testing::short_attention;
using testing::train;
using testing::Trained;
using testing::transformer_xl;
using testing::with;
using testing::with_biases;
using testing::with_documents;
using testing::with_indivisible_heads;
using testing::with_spans;

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
      with_documents(decoder(long_attention({"full"}), 4, PositionEmbeddingType::learned), 37),
      with_documents(decoder(long_attention({"kimi_delta_attention", "gla"})), 61),
      with_documents(decoder(long_attention({"mamba2", "full"})), 61),
      with_documents(decoder(long_attention({"rwkv7", "full"})), 61),
      decoder(long_attention({"aft_local", "gmlp"})),
      with_documents(decoder(long_attention({"aft_simple", "aft_local"})), 61)};
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
      {decoder(long_attention({"strided"}), 4, PositionEmbeddingType::relative)},
      {decoder(with_indivisible_heads(long_attention({"gated_delta_net", "mamba2"})), 2)}};
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
      testing::for_each_layout(
          {{.context = 2}, {.tensor = 2, .sequence = true}, {.context = 2, .tensor = 2}},
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
