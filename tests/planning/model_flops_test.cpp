#include "framework/planning/model_flops.h"

#include <gtest/gtest.h>

#include <ctime>

#include "models/decoder.h"
#include "models/encoder_decoder.h"
#include "models/transformer_xl.h"
#include "tests/support/sanitizers.h"

namespace longspan::model_flops_test {
namespace {

constexpr std::int64_t vocabulary = 13;
constexpr std::int64_t batch = 3, segment = 96;

// heads * head_width differs from width.
ModelOptions options_of(std::vector<std::string> kinds = {"full"}) {
  ModelOptions common = {.layers = 2, .width = 16, .heads = 4, .head_width = 6, .feed_forward = 40};
  common.attention.kinds = std::move(kinds);
  common.attention.sliding_window = {21};
  common.attention.stride = 16;
  common.attention.summary = 4;
  common.attention.block = 16;
  common.attention.lsh.chunk = 16;
  return common;
}

DecoderOptions decoder_of(std::vector<std::string> kinds) {
  DecoderOptions options;
  options.common = options_of(std::move(kinds));
  return options;
}

TransformerXlOptions transformer_xl_of(std::vector<std::string> kinds) {
  TransformerXlOptions options;
  options.common = options_of(std::move(kinds));
  options.memory = 64;
  return options;
}

RunConfig settings_of(BackboneFactory body) {
  RunConfig settings;
  settings.data.batch = batch;
  settings.data.segment = segment;
  settings.body = std::move(body);
  return settings;
}

Fields fields_of(const Shape& shape, std::initializer_list<const char*> names) {
  const Device device = Device::meta();
  Fields fields;
  for (const char* name : names) fields[name] = Tensor::empty(shape, DType::i64, device);
  return fields;
}

Fields stream_fields(std::int64_t rows, std::int64_t time) {
  return fields_of({rows, time}, {"tokens", "targets"});
}

void expect_count(const ModelFlops::Count& found, double forward, double backward) {
  EXPECT_EQ(found.forward, forward);
  EXPECT_EQ(found.backward, backward);
}

ModelFlops::Count count_of(const RunConfig& settings, std::int64_t remembered = 0) {
  return ModelFlops(settings, vocabulary).of(stream_fields(batch, segment), 1, remembered).value();
}

void expect_decoder(const DecoderOptions& options, double forward, double backward) {
  SCOPED_TRACE(options.common.attention.kinds.front());
  expect_count(count_of(settings_of(decoder_body(options))), forward, backward);
}

// Literal counts here and below come from closed formulas, not from ModelFlops.
TEST(ModelFlops, CountsEachAttentionType) {
  expect_decoder(decoder_of({"full"}), 6045696, 12091392);
  expect_decoder(decoder_of({"sliding_window"}), 4404096, 8808192);
  expect_decoder(decoder_of({"strided"}), 3557376, 7114752);
  expect_decoder(decoder_of({"fixed"}), 4386816, 8773632);
  expect_decoder(decoder_of({"sliding_window+global_local"}), 4447296, 8894592);
  expect_decoder(decoder_of({"lsh"}), 4746240, 9492480);
  expect_decoder(decoder_of({"lsh", "full"}), 5395968, 10791936);
  // A state replaces the causal scores: 2 layers, 3 rows, 4 heads of 6 features, 96 positions.
  const double scores = 2.0 * 3 * 4 * (96.0 * 97 / 2) * 2 * (6 + 6);
  const double states = 2.0 * 3 * 4 * 96 * 4 * 6 * 6;
  const double linear = 6045696 - scores + states;
  expect_decoder(decoder_of({"linear"}), linear, 2 * linear);
  DecoderOptions global = decoder_of({"global_local"});
  expect_decoder(global, 4447296, 8894592);
  global.common.attention.global_projections = true;
  expect_decoder(global, 5774400, 11548800);
}

TEST(ModelFlops, DoesNotDependOnReversibilityOrTying) {
  for (const bool tied : {false, true})
    for (const ResidualKind residual : {ResidualKind::plain, ResidualKind::reversible}) {
      DecoderOptions options = decoder_of({"lsh", "full"});
      options.common.norm = NormPosition::pre;
      options.common.residual = residual;
      options.common.tied_embeddings = tied;
      expect_decoder(options, 5395968, 10791936);
    }
}

// Layer 1 of 2 has two heads in the first quarter of 1000 steps. The last layer always has a
// second head.
TEST(ModelFlops, CountsAuxiliaryHeadsWhileActive) {
  DecoderOptions options = decoder_of({"full"});
  options.auxiliary = {.inner = AuxiliaryLossOptions::Inner::drop, .targets = 2};
  ModelFlops needed(settings_of(decoder_body(options)), vocabulary);
  constexpr double head = 2.0 * batch * segment * 16 * vocabulary;
  for (const auto& [step, heads] : {std::pair(0, 3), std::pair(249, 3), std::pair(250, 1)}) {
    SCOPED_TRACE(step);
    expect_count(needed.of(stream_fields(batch, segment), 1, 0, step).value(),
                 6045696 + heads * head,
                 12091392 + 2 * heads * head);
  }
}

void expect_transformer_xl(const TransformerXlOptions& options,
                           std::int64_t remembered,
                           double forward,
                           double backward) {
  SCOPED_TRACE(options.common.attention.kinds.front() + " " + std::to_string(remembered));
  const RunConfig settings = settings_of(transformer_xl_body(options));
  expect_count(count_of(settings, remembered), forward, backward);
}

TEST(ModelFlops, CountsTransformerXlWithAnyMemory) {
  TransformerXlOptions causal = transformer_xl_of({"full"});
  TransformerXlOptions strided = transformer_xl_of({"strided"});
  expect_transformer_xl(causal, 0, 7534080, 14920704);
  expect_transformer_xl(causal, 40, 11281920, 21986304);
  expect_transformer_xl(causal, 64, 13530624, 26225664);
  expect_transformer_xl(transformer_xl_of({"sliding_window"}), 64, 5941248, 11046912);
  expect_transformer_xl(strided, 64, 4821504, 8807424);
  causal.same_length = strided.same_length = true;
  expect_transformer_xl(causal, 64, 9507840, 18180096);
  expect_transformer_xl(strided, 64, 4531200, 8226816);
  // Norms before the projections require the gradient of the memory's rows.
  causal.common.norm = NormPosition::pre;
  expect_transformer_xl(causal, 64, 9507840, 18769920);
  causal.common.tied_embeddings = false;
  causal.common.residual = ResidualKind::reversible;
  expect_transformer_xl(causal, 64, 9507840, 18769920);
}

TEST(ModelFlops, MatchesManualCountForDecoder) {
  DecoderOptions options;
  options.common = {.layers = 1, .width = 4, .heads = 2, .head_width = 3, .feed_forward = 10};
  const double projections = 4 * 2 * 6 * 4 * 6;  // q, k, v, out: 6 rows, width 4, 2 heads of 3
  const double feed_forward = 2 * 2 * 6 * 4 * 10;
  const double scores = 2 * (1 + 2 + 3) * 2 * (6 + 6);  // streams, pairs: q.k and p.v
  const double logits = 2 * 6 * 4 * 7;
  const double forward = projections + feed_forward + scores + logits;
  ModelFlops needed(settings_of(decoder_body(options)), 7);
  expect_count(needed.of(stream_fields(2, 3), 1, 0).value(), forward, 2 * forward);
  expect_count(needed.of(stream_fields(1, 3), 2, 0).value(), forward, 2 * forward);
  // Gates multiply all rows by six square matrices or by one, twice per layer.
  options.common.norm = NormPosition::pre;
  options.common.residual = ResidualKind::gated;
  for (const auto& [kind, matrices] :
       {std::pair{GateKind::gru, 6}, std::pair{GateKind::output, 1}}) {
    options.common.gate.kind = kind;
    const double gated = forward + 2 * matrices * 2 * 6 * 4 * 4;
    ModelFlops of_gated(settings_of(decoder_body(options)), 7);
    expect_count(of_gated.of(stream_fields(2, 3), 1, 0).value(), gated, 2 * gated);
  }
}

// Each pair also uses the key and the value of its relative position.
TEST(ModelFlops, MatchesManualCountForRelativePositions) {
  DecoderOptions options = decoder_of({"full"});
  options.positions.kind = PositionEmbeddingType::relative;
  const double pairs = 2.0 * batch * 4 * (segment * (segment + 1) / 2);  // layers, rows, heads
  const double forward = 6045696 + pairs * 2 * (6 + 6);
  expect_decoder(options, forward, 2 * forward);
}

TEST(ModelFlops, MatchesManualCountForTransformerXl) {
  TransformerXlOptions options;
  options.common = {.layers = 1, .width = 4, .heads = 2, .head_width = 3, .feed_forward = 10};
  options.memory = 4;
  // 2 streams of 3 tokens after 2 remembered rows; width 4, 2 heads of 3.
  const double queries_and_out = 2 * 2 * 6 * 4 * 6;
  const double keys_and_values = 2 * 2 * 10 * 4 * 6;
  const double distances = 2 * 5 * 4 * 6;
  const double feed_forward = 2 * 2 * 6 * 4 * 10;
  const double scores = 2 * (3 + 4 + 5) * 2 * (6 + 6 + 6);  // q.k, q.r and p.v
  const double logits = 2 * 6 * 4 * 7;
  const double forward =
      queries_and_out + keys_and_values + distances + feed_forward + scores + logits;
  const double of_others = 2 * (queries_and_out + feed_forward + scores + logits) + distances;
  const auto count = [&] {
    return ModelFlops(settings_of(transformer_xl_body(options)), 7)
        .of(stream_fields(2, 3), 1, 2)
        .value();
  };
  options.common.norm = NormPosition::post;
  // Keys and values: all rows add to the gradient of weights; only the 6 new rows receive one.
  const double of_new_rows = 2 * 2 * 6 * 4 * 6;
  expect_count(count(), forward, of_others + keys_and_values + of_new_rows);
  // The norm before the projections requires the gradient of the memory rows too.
  options.common.norm = NormPosition::pre;
  expect_count(count(), forward, of_others + 2 * keys_and_values);
}

// Keys of a causal query are random: half of two chunks are earlier, plus the query itself.
TEST(ModelFlops, CausalLshIsLinearInLength) {
  const auto scores = [](std::int64_t time, std::int64_t chunk) {
    const auto forward = [&](const std::string& kind) {
      DecoderOptions options = decoder_of({kind});
      options.common.attention.lsh = {.chunk = chunk, .rounds = 4};
      return ModelFlops(settings_of(decoder_body(options)), vocabulary)
          .of(stream_fields(1, time), 1, 0)
          ->forward;
    };
    // Two layers, each with one projection fewer.
    const auto tokens = static_cast<double>(time);
    const double causal = 2 * 2 * (24 + 24) * tokens * (tokens + 1) / 2;
    return forward("lsh") - (forward("full") - causal - 2 * 2 * 16 * 24 * tokens);
  };
  EXPECT_EQ(scores(4096, 64), 2 * 2 * (24 + 24) * 4 * 4096.0 * 129 / 2);
  EXPECT_EQ(scores(8192, 64), 2 * scores(4096, 64));
  EXPECT_EQ(scores(100, 64), 2 * 2 * (24 + 24) * 100.0 * 101 / 2);
}

// Source and target of different lengths: encoder, decoder and cross-attention.
TEST(ModelFlops, MatchesManualCountForEncoderDecoder) {
  EncoderDecoderOptions options;
  options.common = {.layers = 1,
                    .width = 4,
                    .heads = 2,
                    .head_width = 3,
                    .feed_forward = 10,
                    .norm = NormPosition::pre};
  RunConfig settings = settings_of(encoder_decoder_body(options));
  settings.task = "translation";
  Fields fields = fields_of({2, 3}, {"tokens", "targets"});
  fields.merge(fields_of({2, 5}, {"source"}));
  fields.merge(fields_of({2}, {"source_length", "length"}));
  const double source = 10, target = 6;  // tokens
  const double row = 2 * 4 * 6, feed_forward = 2 * 2 * 4 * 10;
  const double encoder = source * (4 * row + feed_forward) + 2 * 5 * 5 * 2 * (6 + 6);
  const double decoder = target * (4 * row + feed_forward) + 2 * (1 + 2 + 3) * 2 * (6 + 6);
  const double across = target * 2 * row + source * 2 * row + 2 * 3 * 5 * 2 * (6 + 6);
  const double forward = encoder + decoder + across + target * 2 * 4 * 7;
  const auto found = ModelFlops(settings, 7).of(fields, 1, 0).value();
  expect_count(found, forward, 2 * forward);
}

TEST(ModelFlops, DoesNotDependOnLayoutOrMemoryMode) {
  TransformerXlOptions options = transformer_xl_of({"full"});
  RunConfig settings = settings_of(transformer_xl_body(options));
  settings.data.batch = 4;
  const auto full = [&](const MeshShape& mesh) {
    return ModelFlops(settings, vocabulary).of_full_step(mesh).value().total();
  };
  const double alone = full({});
  EXPECT_GT(alone, 0);
  EXPECT_EQ(full({.data = 2, .context = 4, .tensor = 2}), alone);
  settings.memory = {.recompute_granularity = RecomputeGranularity::full,
                     .feed_forward_chunks = 4,
                     .loss_chunks = 4};
  settings.parallel.zero = 2;
  settings.training.accumulation = 2;
  EXPECT_EQ(full({.data = 2, .tensor = 2}), alone);
}

// Tiles form a triangle of columns, too many to list.
TEST(ModelFlops, CountsFixedAttentionAtAnyLength) {
  DecoderOptions options;
  options.common = {.layers = 1, .width = 4, .heads = 1, .feed_forward = 4};
  options.common.attention = {.kinds = {"fixed"}, .stride = 128, .summary = 8};
  constexpr std::int64_t time = std::int64_t{1} << 21;
  const auto blocks = static_cast<double>(time / 128);
  const double pairs = blocks * 128 * 129 / 2 + 128 * 8 * blocks * (blocks - 1) / 2;
  RunConfig settings = settings_of(decoder_body(options));
  settings.data.segment = time;
  ModelFlops needed(settings, vocabulary);
  const double rows = (4 + 2) * 2 * 4 * 4 + 2 * 4 * vocabulary;
  EXPECT_EQ(needed.of(stream_fields(1, time), 1, 0)->forward, time * rows + pairs * 2 * (4 + 4));
}

// Every rank counts in every step.
TEST(ModelFlops, CountsDeepModelWithin50Milliseconds) {
  if (testing::sanitized) GTEST_SKIP() << "sanitizers take most of the time";
  TransformerXlOptions options;
  options.common = {.layers = 24, .width = 1024, .heads = 16, .feed_forward = 4096};
  options.memory = 1024;
  ModelFlops needed(settings_of(transformer_xl_body(options)), 32000);
  needed.of(stream_fields(8, 1024), 1, 0);
  const std::clock_t begin = std::clock();
  needed.of(stream_fields(8, 1024), 1, 512);
  const std::clock_t walked = std::clock();
  for (int i = 0; i < 1000; ++i) needed.of(stream_fields(8, 1024), 1, 512);
  const std::clock_t asked = std::clock();
  const auto seconds = [](std::clock_t ticks) {
    return static_cast<double>(ticks) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(walked - begin), 0.05);
  EXPECT_LT(seconds(asked - walked), 0.05);  // 1000 calls
}

}  // namespace
}  // namespace longspan::model_flops_test
