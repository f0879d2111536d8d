#include "framework/nn/attention/linformer_attention.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::linformer_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 3, width = 6, longest = 7;

const std::vector<LinformerSharing> all_sharings = {LinformerSharing::none,
                                                    LinformerSharing::heads,
                                                    LinformerSharing::keys_values,
                                                    LinformerSharing::layers};

LinformerAttention::Options options_of(LinformerSharing sharing,
                                       std::int64_t keys,
                                       double dropout = 0) {
  return {.linformer = {.keys = keys, .sharing = sharing},
          .longest = longest,
          .heads = heads,
          .dropout = dropout};
}

std::unique_ptr<MultiHeadAttention> layer_of(const Scope& scope,
                                             std::unique_ptr<AttentionOp> mechanism) {
  return std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::move(mechanism));
}

AttentionContext seeing_all(const std::vector<std::int64_t>& lengths = {}) {
  AttentionContext context;
  context.mask.rules = masks::everything();
  if (!lengths.empty())
    context.mask.key_length =
        Tensor::from<std::int64_t>(lengths, {std::ssize(lengths)}, backend_device());
  return context;
}

TEST(LinformerAttention, GradientMatchesFiniteDifferences) {
  for (const LinformerSharing sharing : all_sharings)
    for (const bool padded : {false, true}) {
      Parameters parameters = one_process_parameters();
      const Scope scope = Scope(parameters).child("attention");
      const auto layer =
          layer_of(scope, std::make_unique<LinformerAttention>(scope, options_of(sharing, 3, 0.3)));
      allocate_randomly(parameters, 3);
      const ForwardContext pass = {.training = true, .random = Random(5)};
      const AttentionContext context = padded ? seeing_all({5, 2}) : seeing_all();
      expect_layer_gradients(
          parameters,
          [&](const auto& in) { return (*layer)(in[0], Variable(), context, pass); },
          {random_tensor({batch, 6, width}, 1)},
          {.directions = 1, .elements = 1});
    }
}

// Identity: each projected key is one position.
TEST(LinformerAttention, IdentityProjectionMatchesFullAttention) {
  for (const LinformerSharing sharing : all_sharings) {
    const auto run = [&](bool projected) {
      Parameters parameters = one_process_parameters();
      const Scope scope = Scope(parameters).child("attention");
      std::unique_ptr<AttentionOp> mechanism;
      if (projected)
        mechanism = std::make_unique<LinformerAttention>(scope, options_of(sharing, longest));
      else
        mechanism = std::make_unique<SoftmaxAttention>(0);
      const auto layer = layer_of(scope, std::move(mechanism));
      parameters.allocate(Random(4));
      for (const auto& parameter : parameters.all()) {
        if (parameter->name.find("linformer") == std::string::npos) continue;
        parameter->master.zero();
        for (std::int64_t i = 0; i < parameter->master.elements(); i += longest * longest)
          for (std::int64_t t = 0; t < longest; ++t)
            parameter->master.data<double>()[i + t * (longest + 1)] = 1;
      }
      return values_of((*layer)(Variable(random_tensor({batch, longest, width}, 1)),
                                Variable(),
                                seeing_all(),
                                ForwardContext())
                           .value());
    };
    expect_close(run(true), run(false), 1e-12);
  }
}

TEST(LinformerAttention, PaddedRowMatchesShorterRow) {
  Parameters parameters = one_process_parameters();
  const Scope scope = Scope(parameters).child("attention");
  const auto layer = layer_of(
      scope, std::make_unique<LinformerAttention>(scope, options_of(LinformerSharing::heads, 3)));
  allocate_randomly(parameters, 3);
  const Tensor x = random_tensor({1, longest, width}, 1);
  const auto run = [&](const Tensor& rows, const AttentionContext& context) {
    return values_of((*layer)(Variable(rows), Variable(), context, ForwardContext()).value());
  };
  const Tensor start = x.reshape({longest, width}).slice(0, 4).reshape({1, 4, width});
  Values padded = run(x, seeing_all({4}));
  padded.resize(4 * width);
  expect_close(padded, run(start, seeing_all()), 1e-13);
}

TEST(LinformerAttention, SharesProjectionsAsConfigured) {
  for (const LinformerSharing sharing : all_sharings) {
    Parameters parameters = one_process_parameters();
    for (const std::string name : {"0", "1"})
      LinformerAttention(Scope(parameters).child(name), options_of(sharing, 3));
    const std::size_t expected = sharing == LinformerSharing::layers        ? 1
                                 : sharing == LinformerSharing::keys_values ? 2
                                                                            : 4;
    EXPECT_EQ(parameters.all().size(), expected);
  }
}

TEST(LinformerAttention, RejectsLongSequencesAndCausalMasks) {
  Parameters parameters = one_process_parameters();
  const Scope scope = Scope(parameters).child("attention");
  const auto layer = layer_of(
      scope, std::make_unique<LinformerAttention>(scope, options_of(LinformerSharing::heads, 3)));
  allocate_randomly(parameters, 3);
  const auto run = [&](std::int64_t time, const AttentionContext& context) {
    (*layer)(
        Variable(random_tensor({batch, time, width}, 1)), Variable(), context, ForwardContext());
  };
  EXPECT_NO_THROW(run(longest, seeing_all()));
  EXPECT_THROW(run(longest + 1, seeing_all()), ConfigurationError);
  EXPECT_THROW(run(longest, AttentionContext()), ConfigurationError);  // causal
}

TEST(LinformerAttention, ReportsIncompatibleOptions) {
  const AttentionOptions options = {.kinds = {"linformer"}, .linformer = {.longest = 100}};
  const auto problem = [&](const AttentionBuildOptions& setting) {
    return problem_of(options, setting);
  };
  EXPECT_EQ(problem({.segment = 100, .causal = false, .examples = true}), "");
  EXPECT_NE(problem({.segment = 100}).find("does not support causal models"), std::string::npos);
  EXPECT_NE(problem({.memory = true}).find("does not support model.mem_len"), std::string::npos);
  EXPECT_EQ(problem({.segment = 101, .causal = false}),
            "model.attention.linformer.max_length: expected at least 101 (positions of a "
            "sequence), found 100");
}

}  // namespace
}  // namespace longspan::linformer_attention_test
