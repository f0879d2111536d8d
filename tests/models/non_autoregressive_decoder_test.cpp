// Non-autoregressive decoding: masked inputs, refinement and models.
#include "models/non_autoregressive_decoder.h"

#include <cmath>

#include "framework/modeling/non_autoregressive.h"
#include "framework/modeling/refinement.h"
#include "tests/data/temporary_file.h"
#include "tests/models/encoder_decoder_testing.h"

namespace longspan::non_autoregressive_decoder_test {
namespace {

using testing::make_encoder_decoder;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

const std::vector<Lengths> rows = {{4, 6}, {2, 3}, {0, 4}, {3, 1}, {0, 0}};
constexpr std::int64_t columns = 6;
constexpr std::int64_t mask = testing::vocabulary;

Batch batch(std::int64_t first_row = 0) {
  Batch result;
  result.fields = testing::pair_fields(rows, {4, columns}, 1);
  result.counts = {{"tokens", 14}, {"rows", 4}};
  result.first_row = first_row;
  return result;
}

EncoderDecoderOptions masked(NormPosition norm = NormPosition::pre) {
  EncoderDecoderOptions options;
  options.common = testing::tiny_options(norm);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.decoder = EncoderDecoderOptions::Decoder::masked;
  options.masking.length_weight = 0.3;
  return options;
}

EncoderDecoderOptions refined(bool one_pass = false) {
  EncoderDecoderOptions options = masked();
  options.masking.masking = NatObjective::refined;
  options.masking.passes = 3;
  options.masking.one_pass = one_pass;
  return options;
}

std::vector<std::int64_t> ids(const Batch& batch, const char* field) {
  const auto span = batch.field(field).span<std::int64_t>();
  return {span.begin(), span.end()};
}

TEST(NonAutoregressive, MasksRandomTokensExceptEndToken) {
  const std::vector<std::int64_t> words = ids(batch(), "targets");
  std::vector<std::int64_t> found(columns, 0);
  for (std::uint64_t step = 0; step < 200; ++step) {
    const Batch some = prepare_nat_batch(batch(), mask, {}, Random(step));
    const auto tokens = ids(some, "tokens"), targets = ids(some, "targets");
    std::int64_t count = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t row = i / columns;
      const auto t = static_cast<std::int64_t>(i % columns);
      const bool is_masked = targets[i] != ignored_target;
      if (is_masked) {
        EXPECT_EQ(tokens[i], mask);
        EXPECT_EQ(targets[i], words[i]);
        EXPECT_LT(t, rows[row].target - 1);
      } else {
        EXPECT_EQ(tokens[i], t < rows[row].target ? words[i] : 0);
      }
      count += is_masked ? 1 : 0;
      if (row == 0) found[i] += is_masked ? 1 : 0;
    }
    EXPECT_EQ(some.count("tokens"), count);
    // Rows with maskable tokens have at least one mask.
    EXPECT_EQ(targets[columns + 2], ignored_target);
    EXPECT_TRUE(targets[columns] >= 0 || targets[columns + 1] >= 0);
  }
  // 1 to 5 of 5 tokens are masked with equal probability: 3 on average.
  for (std::size_t t = 0; t < 5; ++t) EXPECT_NEAR(static_cast<double>(found[t]), 120, 30);
}

TEST(NonAutoregressive, MasksAllTokensOutsideTraining) {
  const Batch all = prepare_nat_batch(batch(), mask, {}, std::nullopt);
  EXPECT_EQ(all.count("tokens"), 5 + 2 + 3);
  EXPECT_EQ(
      ids(prepare_nat_batch(batch(), mask, {.masking = NatObjective::all}, Random(1)), "tokens"),
      ids(all, "tokens"));
}

// Source length and maskable tokens per row: (4, 5), (2, 2), (0, 3), (3, 0).
TEST(NonAutoregressive, CopiesSourceIntoDecoderInput) {
  const NatOptions options = {.masking = NatObjective::all, .first = NatDecoderInput::source};
  const auto tokens = ids(prepare_nat_batch(batch(), mask, options, Random(1)), "tokens");
  const auto source = ids(batch(), "source"), words = ids(batch(), "targets");
  for (const auto& [place, of] : {std::pair(0, 0), {1, 1}, {2, 2}, {3, 2}, {4, 3}})
    EXPECT_EQ(tokens[static_cast<std::size_t>(place)], source[static_cast<std::size_t>(of)])
        << place;
  EXPECT_EQ(tokens[5], words[5]);
  EXPECT_EQ(tokens[columns], source[4]);
  EXPECT_EQ(tokens[columns + 1], source[5]);
  EXPECT_EQ(tokens[2 * columns], mask);
}

TEST(NonAutoregressive, UniformCopyIncludesFirstAndLastSourceToken) {
  for (std::int64_t n = 2; n < 20; ++n)
    for (std::int64_t m = 1; m < 20; ++m) {
      EXPECT_EQ(uniform_copy_position(0, n, m), 0);
      EXPECT_EQ(uniform_copy_position(n - 1, n, m), m - 1);
      for (std::int64_t t = 0; t < n; ++t) {
        const double exact = static_cast<double>(t * (m - 1)) / static_cast<double>(n - 1);
        EXPECT_EQ(uniform_copy_position(t, n, m), std::lrint(exact)) << t << " " << n << " " << m;
        EXPECT_TRUE(m != n || uniform_copy_position(t, n, m) == t);
      }
    }
  EXPECT_EQ(uniform_copy_position(0, 1, 7), 0);
}

TEST(NonAutoregressive, MaskingDependsOnGlobalRow) {
  const Batch whole = prepare_nat_batch(batch(7), mask, {}, Random(5));
  Batch part = batch(7);
  part.fields = rows_of(part.fields, 2, 4);
  part.first_row = 9;
  part = prepare_nat_batch(part, mask, {}, Random(5));
  const auto expected = ids(whole, "tokens");
  EXPECT_EQ(ids(part, "tokens"),
            std::vector(expected.begin() + 2 * columns, expected.begin() + 4 * columns));
}

TEST(NonAutoregressive, LengthClassesRoundTrip) {
  for (const std::int64_t source : {1, 5, 200})
    for (std::int64_t target = std::max<std::int64_t>(source - 128, 1); target < source + 128;
         ++target)
      EXPECT_EQ(length_of_class(source, length_class(source, target, true), true), target);
  EXPECT_EQ(length_class(1, 1000, true), 255);
  EXPECT_EQ(length_class(1000, 1, true), 0);
  EXPECT_EQ(length_of_class(3, 0, true), 1);
  for (std::int64_t target = 1; target < 256; ++target)
    EXPECT_EQ(length_of_class(7, length_class(9, target, false), false), target);
  EXPECT_EQ(length_class(1000, 1000, false), 255);
}

// Each row of the next input holds the predictions or a corrupted target.
TEST(Refinement, InputIsPredictionOrCorruptedTarget) {
  NatTargets options;
  options.mask = mask;
  const Batch read =
      prepare_nat_batch(batch(3), mask, {.masking = NatObjective::all}, std::nullopt);
  const auto gold = ids(read, "targets"), before = ids(read, "tokens");
  const Tensor predicted = full_tensor({std::ssize(rows), columns}, 9);
  std::int64_t predicted_rows = 0, true_rows = 0, equal = 0, words = 0;
  for (std::uint64_t step = 0; step < 400; ++step) {
    const ForwardContext pass = {.training = true, .random = Random(step), .first_stream = 3};
    const Tensor next = next_refinement_input(options, {.fields = read.fields}, predicted, pass);
    const auto found = next.span<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(gold[i] >= 0 || found[i] == before[i]);
      EXPECT_LT(found[i], mask);
    }
    const bool sampled = std::ranges::all_of(found.first(5), [](auto id) { return id == 9; });
    predicted_rows += sampled ? 1 : 0;
    true_rows += sampled ? 0 : 1;
    for (std::size_t t = 0; t < 5 && !sampled; ++t, ++words) equal += found[t] == gold[t] ? 1 : 0;
    // Another rank draws equal rows.
    const ForwardContext later = {.training = true, .random = Random(step), .first_stream = 5};
    const Tensor part = next_refinement_input(
        options, {.fields = rows_of(read.fields, 2, 4)}, predicted.slice(2, 4), later);
    EXPECT_TRUE(
        std::ranges::equal(part.span<std::int64_t>(), found.subspan(2 * columns, 2 * columns)));
  }
  EXPECT_NEAR(static_cast<double>(predicted_rows), 200, 50);
  EXPECT_GT(true_rows, 0);
  // A third of all tokens is replaced and pairs are swapped; some changes keep the token.
  EXPECT_NEAR(static_cast<double>(equal) / static_cast<double>(words), 0.62, 0.12);
}

TEST(Refinement, SingleRandomPassIsUniform) {
  NatTargets options;
  options.one_pass = true;
  std::vector<int> found(4, 0);
  for (std::uint64_t step = 0; step < 400; ++step) {
    const RefinementPasses passes = refined_passes(options, {.random = Random(step)}, false);
    EXPECT_EQ(passes.last, passes.first_learnt);
    ++found.at(static_cast<std::size_t>(passes.last));
  }
  for (const int count : found) EXPECT_NEAR(count, 100, 40);
  EXPECT_EQ(refined_passes(options, {}, true).last, 3);
  options.one_pass = false;
  EXPECT_EQ(refined_passes(options, {}, false).first_learnt, 0);
}

void expect_gradients(EncoderDecoderOptions options) {
  options.common.dropout = options.common.attention_dropout = 0.3;
  const auto model = make_encoder_decoder(options, tiny_setting());
  const Batch read = model->body().prepared(batch(), Random(4));
  const ForwardContext pass = {.training = true, .random = Random(3)};
  testing::expect_layer_gradients(
      model->parameters(),
      [&](const std::vector<Variable>&) {
        const std::vector<LossTerm> terms = model->losses({.fields = read.fields}, pass).terms;
        EXPECT_EQ(terms.size(), 2u);
        return add(sum(terms[0].values), sum(terms[1].values, terms[1].weight));
      },
      {},
      {.directions = 1, .elements = 1});
}

TEST(NonAutoregressiveDecoder, GradientsMatchFiniteDifferences) {
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post})
    expect_gradients(masked(norm));
}

TEST(NonAutoregressiveDecoder, RefinementMatchesFiniteDifferences) { expect_gradients(refined()); }

TEST(NonAutoregressiveDecoder, DetachedLengthLossHasNoEncoderGradient) {
  for (const bool detached : {false, true}) {
    EncoderDecoderOptions options = masked();
    options.masking.length_detached = detached;
    const auto model = make_encoder_decoder(options, tiny_setting());
    const Batch read = model->body().prepared(batch(), Random(4));
    model->parameters().clear_gradients();
    backward(sum(model->losses({.fields = read.fields}, {.training = true}).terms[1].values));
    for (const auto& parameter : model->parameters().all()) {
      const Values gradient = values_of(parameter->shard_gradient);
      const bool is_zero = std::ranges::all_of(gradient, [](double x) { return x == 0; });
      if (parameter->name.starts_with("length/")) {
        EXPECT_FALSE(is_zero) << parameter->name;
      }
      if (parameter->name.starts_with("encoder/")) {
        EXPECT_EQ(is_zero, detached) << parameter->name;
      }
    }
  }
}

// Each pass reads the predictions of the previous one.
TEST(NonAutoregressiveDecoder, RefinementLossSumsAllPasses) {
  EncoderDecoderOptions options = refined();
  options.masking.denoised = 0;
  const auto model = make_encoder_decoder(options, tiny_setting());
  const Batch read = model->body().prepared(batch(), Random(4));
  const Values found =
      values_of(model->losses({.fields = read.fields}, {.training = true}).terms[0].values.value());
  Values expected(found.size(), 0.0);
  Fields fields = read.fields;
  for (int round = 0; round < 3; ++round) {
    const Losses losses = model->losses({.fields = fields}, ForwardContext{});
    const Values here = values_of(losses.terms[0].values.value());
    for (std::size_t i = 0; i < here.size(); ++i) expected[i] += here[i];
    const Values scores =
        values_of(model->scores({.fields = fields}, ForwardContext{}).scores.value());
    fields["tokens"] = fields["tokens"].clone();
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (read.field("targets").span<std::int64_t>()[i] < 0) continue;
      const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i) * (mask + 1);
      fields["tokens"].span<std::int64_t>()[i] = std::max_element(row, row + mask) - row;
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12);
}

// Encoder outputs replace the source.
TEST(NonAutoregressiveDecoder, ReusesEncoderOutputs) {
  for (const CrossAttentionMapping wiring : testing::all_wirings) {
    EncoderDecoderOptions options = masked();
    options.wiring = wiring;
    const auto model = make_encoder_decoder(options, tiny_setting());
    const Batch read = model->body().prepared(batch(), std::nullopt);
    const Predictions answers = model->predict({.fields = read.fields}, ForwardContext{});
    EXPECT_EQ(answers.choices.elements(), std::ssize(rows));
    Fields without = read.fields;
    without["source"] = full_tensor(read.field("source").shape(), 1);
    EXPECT_EQ(
        values_of(model
                      ->scores({.fields = without, .encoder_outputs = answers.encoder_outputs},
                               ForwardContext{})
                      .scores.value()),
        values_of(model->scores({.fields = read.fields}, ForwardContext{}).scores.value()));
  }
}

TEST(NonAutoregressiveDecoder, CountsOutOfRangeLengths) {
  const auto model = make_encoder_decoder(masked(), tiny_setting());
  const Batch read = model->body().prepared(batch(), Random(4));
  const auto far = [&](std::int64_t length) {
    Fields fields = read.fields;
    fields["source_length"] = fields["source_length"].clone();
    fields["source_length"].span<std::int64_t>()[0] = length;
    return out_of_range_lengths(fields, {}).sum;
  };
  EXPECT_EQ(far(5 + 128), 0);
  EXPECT_EQ(far(5 + 129), 1);
  EXPECT_EQ(model->losses({.fields = read.fields}, {.training = true}).watched.at(0).name,
            "out_of_range_lengths");
}

TEST(NonAutoregressiveDecoder, AttendsToAllPositionsExceptPadding) {
  const auto model = make_encoder_decoder(masked(), tiny_setting());
  const Batch read = model->body().prepared(batch(), std::nullopt);
  const auto scores = [&](std::size_t row, std::size_t t) {
    Fields fields = read.fields;
    fields["tokens"] = fields["tokens"].clone();
    row_of(fields["tokens"], row)[t] = 3;
    return values_of(model->scores({.fields = fields}, ForwardContext{}).scores.value());
  };
  const Values last = scores(1, 1), padding = scores(1, 4);
  const Values before =
      values_of(model->scores({.fields = read.fields}, ForwardContext{}).scores.value());
  constexpr std::size_t width = testing::vocabulary + 1;
  const std::size_t first = columns * width;  // row 1
  EXPECT_NE(last[first], before[first]);
  for (std::size_t i = 0; i < 3 * width; ++i) EXPECT_EQ(padding[first + i], before[first + i]);
}

TEST(NonAutoregressiveDecoder, RejectsIncompatibleOptions) {
  EncoderDecoderOptions options = masked();
  options.source.copies = true;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
            "model.decoder_type: non_autoregressive does not support copying and coverage; set "
            "model.use_pointer_generator to false and model.coverage_loss_weight to 0");
  ModelBuildOptions setting = tiny_setting();
  setting.sampling.mixing = ScheduledSamplingMethod::parallel;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(masked(), setting); }),
            "model.decoder_type: non_autoregressive does not support "
            "training.scheduled_sampling.method; set it to none");
  options = refined();
  options.masking.first = NatDecoderInput::source;
  options.embeddings = EncoderDecoderOptions::Embeddings::apart;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
            "model.nat.src_embedding_copy requires model.share_encoder_decoder_embeddings: true");
}

}  // namespace
}  // namespace longspan::non_autoregressive_decoder_test
