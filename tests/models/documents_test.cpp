// Documents packed into one row, without attention between them.
#include "framework/modeling/documents.h"

#include <numeric>

#include "models/universal_transformer.h"
#include "tests/models/model_testing.h"

namespace longspan::documents_test {
namespace {

using testing::backend_device;
using testing::loss_values;
using testing::random_ids;
using testing::segment_fields;
using testing::segment_of;
using testing::tiny_options;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

using Lengths = std::vector<std::int64_t>;

// Positions of tokens within documents of these lengths, [1, time], from token `begin`.
Tensor positions_of(const Lengths& lengths, std::int64_t begin, std::int64_t time) {
  std::vector<std::int64_t> places;
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 0; i < length; ++i) places.push_back(i);
  return Tensor::from<std::int64_t>(
      {places.begin() + begin, places.begin() + begin + time}, {1, time}, backend_device());
}

ModelInput with_documents(ModelInput reading, const Lengths& lengths, std::int64_t begin) {
  reading.fields["document_position"] = positions_of(lengths, begin, reading.time());
  return reading;
}

struct Result {
  Values losses;
  std::vector<Values> gradients;
};

// Concatenates the losses of all passes and sums their gradients.
class Reader {
 public:
  explicit Reader(const Model& model) : model_(model) { model_.parameters().clear_gradients(); }

  RecurrentState read(const ModelInput& reading) {
    Losses losses = model_.losses(reading, ForwardContext());
    const Variable values = loss_values(losses);
    backward(sum(values, 1.0));
    const Values found = values_of(values.value());
    result_.losses.insert(result_.losses.end(), found.begin(), found.end());
    return losses.carried;
  }
  Result result() {
    for (const auto& parameter : model_.parameters().all())
      result_.gradients.push_back(values_of(parameter->gradient));
    return result_;
  }

 private:
  const Model& model_;
  Result result_;
};

void expect_same(const Result& found, const Result& expected) {
  const auto expect_close = [](const Values& a, const Values& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
  };
  expect_close(found.losses, expected.losses);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < found.gradients.size(); ++i)
    expect_close(found.gradients[i], expected.gradients[i]);
}

// Reads each document in a separate row.
Result read_apart(const Model& model, const Tensor& text, const Lengths& lengths) {
  Reader apart(model);
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    apart.read(segment_of(text, begin, length));
    begin += length;
  }
  return apart.result();
}

const Lengths lengths = {3, 1, 6, 4};
constexpr std::int64_t total = 14;

void expect_packed_equals_apart(const Model& model) {
  const Tensor text = random_ids(1, total + 1, 4);
  Reader packed(model);
  packed.read(with_documents(segment_of(text, 0, total), lengths, 0));
  expect_same(packed.result(), read_apart(model, text, lengths));
}

std::vector<AttentionOptions> attention_options() {
  return {
      {.kinds = {"full"}},
      {.kinds = {"sliding_window"}, .sliding_window = {3}},
      {.kinds = {"sliding_window+strided", "dilated/full"}, .sliding_window = {2}, .stride = 2}};
}

TEST(Documents, PackedRowMatchesSeparateRowsInDecoder) {
  for (const auto& attention : attention_options())
    for (const PositionEmbeddingType positions : {PositionEmbeddingType::sinusoidal,
                                                  PositionEmbeddingType::learned,
                                                  PositionEmbeddingType::relative,
                                                  PositionEmbeddingType::relative_key_query,
                                                  PositionEmbeddingType::relative_bias,
                                                  PositionEmbeddingType::alibi,
                                                  PositionEmbeddingType::rotary}) {
      DecoderOptions options;
      options.common = tiny_options(NormPosition::pre);
      options.common.head_width = 4;
      options.common.attention = attention;
      options.positions = {.kind = positions, .relative_max_distance = 3, .buckets = 4};
      expect_packed_equals_apart(*make_decoder(options, tiny_setting(total)));
    }
}

TEST(Documents, PackedRowMatchesSeparateRowsInLayersWithoutSoftmax) {
  for (const char* const kind : {"retention",
                                 "gla",
                                 "delta_net",
                                 "gated_delta_net",
                                 "kimi_delta_attention",
                                 "mamba2",
                                 "rwkv7",
                                 "aft_full",
                                 "aft_local",
                                 "aft_simple"}) {
    SCOPED_TRACE(kind);
    DecoderOptions options;
    options.common = tiny_options(NormPosition::pre);
    options.common.attention.kinds = {kind, "full"};
    options.common.attention.mamba2 = {.dim = 4, .state = 3, .groups = 2};
    options.common.attention.mixing.window = 2;
    expect_packed_equals_apart(*make_decoder(options, tiny_setting(total)));
    options.common.attention.delta_rule = {
        .key_heads = 1, .value_heads = 3, .key_dim = 4, .value_dim = 3};
    expect_packed_equals_apart(*make_decoder(options, tiny_setting(total)));
  }
}

TEST(Documents, PackedRowMatchesSeparateRowsWithSpans) {
  for (const SpanKind kind : {SpanKind::adaptive, SpanKind::dynamic}) {
    DecoderOptions options;
    options.common = tiny_options(NormPosition::pre);
    options.spans = {.kind = kind, .form = {.limit = 6, .ramp = 2, .initial = 1.3}};
    const auto model = make_decoder(options, tiny_setting(total));
    const Tensor text = random_ids(1, total + 1, 4);
    const auto losses = [&](const ModelInput& reading) {
      return values_of(model->losses(reading, ForwardContext()).terms.front().values.value());
    };
    const Values packed = losses(with_documents(segment_of(text, 0, total), lengths, 0));
    Values apart;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      const Values one = losses(segment_of(text, begin, length));
      apart.insert(apart.end(), one.begin(), one.end());
      begin += length;
    }
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(packed[i], apart[i], 1e-12);
  }
}

TEST(Documents, PackedRowMatchesSeparateRowsWithRecurrence) {
  UniversalTransformerOptions options;
  options.common = tiny_options(NormPosition::pre);
  options.positions.kind = PositionEmbeddingType::alibi;
  options.halting.steps = 3;
  for (const Transition transition :
       {Transition::feed_forward, Transition::separable_convolution}) {
    options.transition = transition;
    expect_packed_equals_apart(*make_universal_transformer(options, tiny_setting(total)));
  }
}

// Documents span segments: the memory shows only tokens of the same document.
TEST(Documents, ContinueAcrossSegmentsWithMemory) {
  for (const auto& attention : attention_options()) {
    TransformerXlOptions options;
    options.common = tiny_options();
    options.common.attention = attention;
    options.memory = total;
    const auto model = make_transformer_xl(options, tiny_setting(total));
    const Tensor text = random_ids(1, total + 1, 5);
    const NoGradGuard unrecorded;
    Values packed, apart;
    RecurrentState memory;
    std::int64_t begin = 0;
    for (const std::int64_t time : {5, 2, 7}) {
      const Losses losses = model->losses(
          with_documents(segment_of(text, begin, time, memory, total), lengths, begin),
          ForwardContext());
      memory = losses.carried;
      const Values found = values_of(loss_values(losses).value());
      packed.insert(packed.end(), found.begin(), found.end());
      begin += time;
    }
    begin = 0;
    for (const std::int64_t length : lengths) {
      const Values found =
          values_of(testing::losses_of(*model, segment_of(text, begin, length)).value());
      apart.insert(apart.end(), found.begin(), found.end());
      begin += length;
    }
    ASSERT_EQ(packed.size(), apart.size());
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(packed[i], apart[i], 1e-12) << i;
  }
}

TEST(Documents, DoNotAttendToEachOther) {
  TransformerXlOptions options;
  options.common = tiny_options();
  const auto model = make_transformer_xl(options, tiny_setting(total));
  const Tensor text = random_ids(1, total + 1, 6);
  const auto losses = [&] {
    return values_of(
        testing::losses_of(*model, with_documents(segment_of(text, 0, total), lengths, 0)).value());
  };
  const Values before = losses();
  for (const std::int64_t changed : {0, 2})
    text.data<std::int64_t>()[changed] = (text.data<std::int64_t>()[changed] + 1) % 11;
  const Values after = losses();
  EXPECT_NE(after[0], before[0]);
  // Position 2 predicts the first token of the next one.
  for (std::size_t i = 3; i < before.size(); ++i) EXPECT_EQ(after[i], before[i]) << i;
}

TEST(Documents, PositionsCountFromSegmentStart) {
  const ModelInput reading =
      with_documents(segment_of(random_ids(1, total + 1, 6), 5, 7), {3, 1, 6, 4}, 5);
  const Tensor places = document_positions(reading, {{0, 2}, {4, 7}}, backend_device()).to_host();
  const auto found = places.span<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(found.begin(), found.end()),
            (std::vector<std::int64_t>{0, 1, 4, 0, 1}));
}

TEST(Documents, RejectsAttentionTypesWithoutDocumentMasks) {
  ModelBuildOptions setting = tiny_setting(total);
  setting.documents_apart = true;
  const auto problem = [&](const std::string& kind) {
    ModelOptions options = tiny_options();
    options.attention.kinds = {kind};
    options.attention.stride = 2;
    options.attention.summary = 1;
    return validate_attention(options, setting, {});
  };
  for (const std::string kind :
       {"full", "sliding_window", "strided", "dilated", "sliding_window+strided"})
    EXPECT_EQ(problem(kind), "");
  for (const std::string kind : {"fixed", "block", "linear", "lsh", "global_local", "synthesizer"})
    EXPECT_EQ(problem(kind),
              "model.attention.layer_types: " + kind +
                  " does not support data.documents.reset_attention_mask; use full, "
                  "sliding_window, dilated or strided");
  DecoderOptions options;
  options.common = tiny_options(NormPosition::pre);
  options.common.attention.kinds = {"linear"};
  const auto model = make_decoder(options, tiny_setting(total));
  EXPECT_THROW(
      testing::losses_of(
          *model, with_documents(segment_of(random_ids(1, total + 1, 6), 0, total), lengths, 0)),
      ConfigurationError);
}

TEST(Documents, RejectsPositionsThatCannotReset) {
  ModelBuildOptions setting = tiny_setting(total);
  setting.documents_apart = true;
  UniversalTransformerOptions universal;
  universal.common = tiny_options(NormPosition::pre);
  EXPECT_THROW(make_universal_transformer(universal, setting), ConfigurationError);
  universal.positions.kind = PositionEmbeddingType::rotary;
  universal.common.head_width = 4;
  EXPECT_NO_THROW(make_universal_transformer(universal, setting));
  DecoderOptions decoder;
  decoder.common = tiny_options(NormPosition::pre);
  decoder.positions.kind = PositionEmbeddingType::learned;
  EXPECT_NO_THROW(make_decoder(decoder, setting));
  decoder.positions_each_layer = true;
  EXPECT_THROW(make_decoder(decoder, setting), ConfigurationError);
}

}  // namespace
}  // namespace longspan::documents_test
