// Additive attention: gradients against differences, with dropout.
#include "framework/autograd/attention.h"
#include "tests/support/gradient_check.h"

namespace longspan::additive_attention_test {
namespace {

using testing::expect_gradients;
using testing::random_tensor;

const std::vector<Tensor>& inputs() {
  static const std::vector<Tensor> all = {random_tensor({2, 4, 2, 3}, 1),
                                          random_tensor({2, 5, 2, 3}, 2),
                                          random_tensor({2, 5, 2, 2}, 3),
                                          random_tensor({2, 3}, 4),
                                          random_tensor({2, 3, 3}, 5)};
  return all;
}

AdditiveRules rules(bool causal) {
  AdditiveRules all = {.causal = causal, .query_begin = 1, .length = testing::ids_of({5, 3})};
  if (causal)
    all.padding = Tensor::from<std::uint8_t>(
        std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 5}, testing::backend_device());
  return all;
}

const AttentionDropout dropped = {.rate = 0.3, .random = Random(7), .batch_begin = 3};

TEST(AdditiveAttention, GradientsMatchDifferences) {
  const std::vector<Tensor> four(inputs().begin(), inputs().begin() + 4);
  for (const bool causal : {false, true})
    for (const auto& dropout : {std::optional<AttentionDropout>(), std::optional(dropped)})
      expect_gradients(
          [&](const auto& in) {
            return additive_attention(in[0], in[1], in[2], in[3], rules(causal), dropout);
          },
          four);
}

TEST(LocationAwareAttention, GradientsMatchDifferences) {
  const Tensor before = random_tensor({2, 2, 5}, 6);
  for (const bool first : {false, true})
    for (const auto& dropout : {std::optional<AttentionDropout>(), std::optional(dropped)})
      expect_gradients(
          [&](const auto& in) {
            return location_aware_attention(in[0],
                                            in[1],
                                            in[2],
                                            in[3],
                                            in[4],
                                            rules(first),
                                            first ? Tensor() : before,
                                            dropout)
                .out;
          },
          inputs());
}

// A shard of the batch has the same mask as these rows of the full batch.
TEST(AdditiveAttention, DropoutMaskDependsOnGlobalBatchRow) {
  const NoGradGuard unrecorded;
  const Tensor query = random_tensor({2, 4, 2, 3}, 1), key = random_tensor({2, 4, 2, 3}, 2);
  const Tensor value = random_tensor({2, 4, 2, 2}, 3), weight = random_tensor({2, 3}, 4);
  AttentionDropout whole = {.rate = 0.5, .random = Random(7), .heads_total = 2};
  const Tensor all =
      additive_attention(
          Variable(query), Variable(key), Variable(value), Variable(weight), {}, whole)
          .value();
  AttentionDropout second = whole;
  second.batch_begin = 1;
  const Tensor part = additive_attention(Variable(query.slice(1, 2)),
                                         Variable(key.slice(1, 2)),
                                         Variable(value.slice(1, 2)),
                                         Variable(weight),
                                         {},
                                         second)
                          .value();
  EXPECT_TRUE(testing::same_bits(part, all.slice(1, 2).clone()));
}

}  // namespace
}  // namespace longspan::additive_attention_test
