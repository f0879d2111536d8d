// Chunked backpropagation through time: a step in chunks equals a step over whole sequences.
#include "models/universal_transformer.h"
#include "tests/models/kinds_testing.h"

namespace longspan::bptt_chunks_test {
namespace {

using testing::Case;
using testing::difference;
using testing::Kind;
using testing::kinds;
using testing::Mode;
using testing::modes;
using testing::reference_modes;
using testing::References;
using testing::supports;
using testing::train;
using testing::Trained;
using testing::with;

Mode chunks_of(std::int64_t length, Mode mode = {"plain"}) {
  mode.name += fmt::format(", chunks of {}", length);
  mode.memory.bptt_chunk_length = length;
  return mode;
}

Kind universal_transformer(const std::string& name, Transition transition) {
  return {name, [=](ResidualKind residual, const ModelBuildOptions& setting) {
            UniversalTransformerOptions options;
            options.common = testing::dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.common.attention.kinds = {"full", "linear"};
            options.count = RecurrenceType::fixed;
            options.halting.steps = 2;
            options.transition = transition;
            return make_universal_transformer(options, setting);
          }};
}

Kind ungated_random_features() {
  AttentionOptions attention = testing::short_attention({"rfa"});
  attention.features.gate = false;
  return testing::decoder(attention);
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> all = kinds();
  all.push_back(universal_transformer("universal_transformer", Transition::feed_forward));
  all.push_back(universal_transformer("universal_transformer, separable convolution",
                                      Transition::separable_convolution));
  all.push_back(ungated_random_features());
  all.push_back(testing::with_documents(
      testing::decoder(testing::short_attention({"kimi_delta_attention", "mamba2"})), 3));
  all.push_back(testing::with_documents(testing::decoder(testing::short_attention({"rwkv7"})), 3));
  return all;
}

// Chunks of one token, shorter than the windows, that do not divide the sequence, and of all of it.
TEST(BpttChunks, EveryModelMatchesWholeSequences) {
  const Case common = {.segment = 11, .steps = 2};
  std::size_t tested = 0;
  for (const Kind& kind : all_kinds()) {
    if (!supports(kind, chunks_of(2), common)) continue;
    ++tested;
    const Trained expected = train(with(kind, {"plain"}, 0, common), ProcessMesh());
    for (const std::int64_t length : {1, 2, 4, 10, 11, 12}) {
      const Case c = with(kind, chunks_of(length), 0, common);
      EXPECT_EQ(difference(train(c, ProcessMesh()), expected, c.bounds), "") << c.name;
    }
  }
  EXPECT_GE(tested, 45u);
}

TEST(BpttChunks, EveryMemoryModeMatchesWholeSequences) {
  const Case common = {.accumulation = 2, .segment = 7, .steps = 2};
  for (const Kind& kind : all_kinds()) {
    if (!supports(kind, chunks_of(2), common)) continue;
    References references;
    for (const Mode& mode : reference_modes())
      references.emplace(mode.residual, train(with(kind, mode, 0, common), ProcessMesh()));
    for (const Mode& mode : modes()) {
      if (!supports(kind, chunks_of(3, mode), common)) continue;
      const Case c = with(kind, chunks_of(3, mode), 0, common);
      const Trained& expected = references.at(mode.residual);
      EXPECT_EQ(difference(train(c, ProcessMesh()), expected, c.bounds), "") << c.name;
    }
  }
}

// The largest error of a gradient in f32 by one pass over whole sequences: 1e-6 in most models,
// more where random features nearly cancel.
double rounding_of(const Trained& whole, const Kind& kind, Case common) {
  common.compute = DType::f64;
  const Trained exact = train(with(kind, {"plain"}, 0, common), ProcessMesh());
  double largest = 0;
  for (std::size_t i = 0; i < exact.first_gradients.size(); ++i)
    largest =
        std::max(largest, testing::deviation(whole.first_gradients[i], exact.first_gradients[i]));
  EXPECT_LT(largest, 5e-3) << kind.name;
  return largest;
}

// Sums in another order round differently. f16: gradients that are 0 up to rounding, such as those
// of key biases, are as large as the loss scale makes them, so only losses are compared.
TEST(BpttChunks, NarrowDtypesMatchWholeSequencesWithinRounding) {
  constexpr double any = std::numeric_limits<double>::infinity();
  for (const Kind& kind : {testing::transformer_xl(testing::long_attention({"full"}), 140),
                           testing::decoder(testing::long_attention({"sliding_window", "linear"})),
                           testing::decoder(testing::long_attention({"performer", "rfa"})),
                           testing::decoder(testing::long_attention({"strided"}))})
    for (const auto& [compute, bounds] : {std::pair(DType::f32, testing::Bounds{1e-6, 1e-4, any}),
                                          std::pair(DType::bf16, testing::Bounds{1e-2, 5e-2, any}),
                                          std::pair(DType::f16, testing::Bounds{1e-2, any, any})}) {
      const Case common = {
          .segment = 150, .streams = 2, .steps = 2, .compute = compute, .bounds = bounds};
      const Trained expected = train(with(kind, {"plain"}, 0, common), ProcessMesh());
      Case c = with(kind, chunks_of(40), 0, common);
      if (compute == DType::f32)
        c.bounds.gradients = std::max(bounds.gradients, rounding_of(expected, kind, common));
      EXPECT_EQ(difference(train(c, ProcessMesh()), expected, c.bounds), "")
          << c.name << ", " << name_of(compute);
    }
}

// A stop between two chunks changes nothing: the same step afterwards equals one without a stop.
TEST(BpttChunks, StopBetweenChunksDiscardsTheStep) {
  Case common = {.accumulation = 2, .segment = 7, .steps = 2};
  const Case c = with(kinds().front(), chunks_of(3), 0, common);
  const auto batch = [&](int step) { return testing::batch_of(c, step, {0, c.streams}); };
  const std::unique_ptr<Trainer> expected = testing::trainer_of(c, ProcessMesh());
  std::vector<StepResult> results;
  for (int step = 0; step < c.steps; ++step) results.push_back(expected->step(batch(step)));
  // 3 chunks of 2 microbatches: 2 forward and 2 backward passes each are followed by a question.
  for (int stop_after = 1; stop_after <= 8; ++stop_after) {
    const std::unique_ptr<Trainer> stopped = testing::trainer_of(c, ProcessMesh());
    stopped->step(batch(0));
    int asked = 0;
    std::vector<std::string> seen;
    StepRequest request;
    request.stop = [&] { return ++asked == stop_after; };
    const StepResult result = stopped->step(batch(1), request);
    EXPECT_TRUE(result.is_discarded && result.stop_requested) << stop_after;
    EXPECT_EQ(asked, stop_after);
    EXPECT_EQ(stopped->steps(), 1);
    const StepResult again = stopped->step(batch(1));
    EXPECT_FALSE(again.is_discarded);
    EXPECT_EQ(again.loss, results[1].loss);
    EXPECT_EQ(again.gradient_norm, results[1].gradient_norm);
  }
}

TEST(BpttChunks, RejectModelsThatRequireWholeSequences) {
  const auto message = [](const ModelOptions& model) -> std::string {
    DecoderOptions options;
    options.common = model;
    ModelBuildOptions setting = testing::tiny_setting();
    setting.memory.bptt_chunk_length = 2;
    try {
      make_decoder(options, setting);
      return "";
    } catch (const ConfigurationError& error) {
      return error.what();
    }
  };
  ModelOptions options = testing::tiny_options();
  EXPECT_EQ(message(options), "");
  options.norm_kind = NormKind::power;
  EXPECT_EQ(message(options),
            "memory.bptt_chunk_length: 2 cannot be combined with model.norm.type: powernorm, whose "
            "statistics cover whole sequences; set it to none");
  options = testing::tiny_options();
  options.attention.kinds = {"lsh"};
  EXPECT_EQ(message(options),
            "memory.bptt_chunk_length: 2 cannot be combined with model.attention.layer_types: lsh, "
            "which requires whole sequences; set it to none");
  EXPECT_EQ(validate_bptt_chunks(options, {.bptt_chunk_length = 2}, 8),
            "memory.bptt_chunk_length: 2 cannot be combined with model.attention.layer_types: lsh, "
            "which requires the whole sequence; use a type that reads earlier positions only, such "
            "as full, sliding_window or linear, or omit memory.bptt_chunk_length");
  EXPECT_EQ(validate_bptt_chunks(testing::tiny_options(), {.bptt_chunk_length = 9}, 8),
            "memory.bptt_chunk_length: expected at most data.seq_length = 8, found 9");
}

}  // namespace
}  // namespace longspan::bptt_chunks_test
