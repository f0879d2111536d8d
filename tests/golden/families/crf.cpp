// The linear-chain conditional random field (pytorch-crf).
#include <gtest/gtest.h>

#include "framework/autograd/losses.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// Number of real steps in each row of a mask [batch, len]; they come first.
std::vector<std::int64_t> lengths_of(const GoldenFile& file, const Tensor& mask) {
  const std::int64_t steps = mask.shape()[1];
  std::vector<std::int64_t> lengths;
  for (std::int64_t row = 0; row < mask.shape()[0]; ++row) {
    const std::int64_t* const real = mask.data<std::int64_t>() + row * steps;
    std::int64_t length = 0;
    while (length < steps && real[length] == 1) ++length;
    for (std::int64_t i = length; i < steps; ++i)
      if (real[i] != 0) throw DataError("{}: a row's real steps do not come first", file.name());
    lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

void check_linear_chain(const GoldenFile& file) {
  const Variable emissions =
      Variable::leaf(exchanged_leading_axes(file.numbers("inputs/emissions")));
  const Tensor tags = exchanged_leading_axes(file.ids("inputs/tags"));
  const std::vector<std::int64_t> lengths =
      lengths_of(file, exchanged_leading_axes(file.ids("inputs/mask")));
  expect_extent(file, "batch", emissions.shape()[0]);
  expect_extent(file, "len", emissions.shape()[1]);
  expect_extent(file, "tags", emissions.shape()[2]);
  std::int64_t steps = 0;
  for (const std::int64_t length : lengths) steps += length;
  EXPECT_TRUE(file.flag("masked") || steps == tags.elements()) << file.name();
  const CrfWeights weights = {.start = leaf_of(file, "weights/start_transitions"),
                              .transitions = leaf_of(file, "weights/transitions"),
                              .end = leaf_of(file, "weights/end_transitions")};
  const Tensor lengths_tensor = testing::ids_of(lengths);
  const Variable losses = crf_losses(emissions, weights, tags, lengths_tensor);
  testing::Values likelihood = testing::values_of(losses.value());
  double total = 0;
  for (double& value : likelihood) total += value = -value;
  expect_output(
      file, "log_likelihood", testing::tensor_of<double>(likelihood, {std::ssize(likelihood)}));
  expect_output(file,
                "log_likelihood_token_mean",
                testing::tensor_of<double>({total / static_cast<double>(steps)}, {1}));
  EXPECT_TRUE(testing::same_bits(viterbi_decode(emissions.value(), weights, lengths_tensor).tags,
                                 file.ids("outputs/viterbi")))
      << file.name() << ": viterbi";

  testing::Values upstream = testing::values_of(file.numbers("inputs/upstream"));
  for (double& value : upstream) value = -value;
  backward({losses}, {testing::tensor_of<double>(upstream, {std::ssize(upstream)})});
  expect_gradient(file, "emissions", exchanged_leading_axes(gradient_of(emissions)));
  expect_gradient(file, "start_transitions", gradient_of(weights.start));
  expect_gradient(file, "transitions", gradient_of(weights.transitions));
  expect_gradient(file, "end_transitions", gradient_of(weights.end));
}

}  // namespace longspan::golden
