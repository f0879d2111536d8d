// Attention of blocks over mixtures of blocks (lucidrains/sinkhorn-transformer).
#include <algorithm>

#include "framework/autograd/attention.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

// At padded queries the reference returns the mean of all values of the block, as all scores are
// equal. x, other: [batch, time, heads, dim].
Variable with_other_at(const Variable& x, const Variable& other, const Tensor& padding) {
  const std::int64_t row = x.shape()[2] * x.shape()[3];
  const auto chosen = [=](const Tensor& from, bool of_padding) {
    const Tensor result = Tensor::zeros(from.shape(), DType::f64, from.device());
    for (std::int64_t i = 0; i < from.elements(); ++i)
      if ((padding.data<std::uint8_t>()[i / row] != 0) == of_padding)
        result.data<double>()[i] = from.data<double>()[i];
    return result;
  };
  const auto only = [&](const Variable& from, bool of_padding) {
    return record(chosen(from.value(), of_padding), {from}, [=](BackwardContext& gradients) {
      gradients.set(0, chosen(gradients.output(), of_padding));
    });
  };
  return add(only(x, false), only(other, true));
}

SinkhornAttention options_of(const GoldenFile& file, const Variable& query) {
  const std::int64_t heads = query.shape()[1],
                     blocks = query.shape()[2] / file.integer("bucket_size");
  const std::int64_t top = std::min(file.integer("n_top"), blocks);
  SinkhornAttention options = {.block = file.integer("bucket_size"), .rotated_from = heads};
  if (file.has("weights/null_keys")) {
    options.causal = true;
    options.top = top;
    options.temperature = file.real("temperature");
    options.rotated_from = heads / 2;
    return options;
  }
  options.iterations = file.integer("sinkhorn_iter");
  options.temperature = file.real("temperature");
  options.values_are_keys = !file.flag("value_fix");
  options.padding_by_largest = true;
  if (file.flag("masked")) options.padding = padding_of(file);
  if (file.flag("topk_mode")) {
    options.top = top;
    options.temperature = 1;  // the top-k mode of the reference has no temperature
  } else {
    options.uniform = file.numbers("inputs/gumbel_uniform");
  }
  return options;
}

}  // namespace

void check_sinkhorn(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/q");
  const Variable key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "heads", query.shape()[1]);
  expect_extent(file, "len", query.shape()[2]);
  expect_extent(file, "d_head", query.shape()[3]);
  SinkhornAttention options = options_of(file, query);
  Variable null_keys, null_values;
  if (options.causal) {
    const std::int64_t heads = query.shape()[1], dim = query.shape()[3];
    null_keys = leaf_of(file, "weights/null_keys");
    null_values = leaf_of(file, "weights/null_values");
    options.null_key = reshape(null_keys, {1, heads, dim});
    options.null_value = reshape(null_values, {1, heads, dim});
  }
  const SortedBlocks blocks = sorted_blocks(inside(query), inside(key), inside(value), options);
  const std::int64_t batch = query.shape()[0];
  if (!options.causal) expect_output(file, "reordering", blocks.weights.value());
  const auto attended = [&](const Variable& asking, const AttentionMask& mask) {
    return unsorted_blocks(attention(asking, blocks.key, blocks.value, mask), batch, options);
  };
  Variable y = attended(blocks.query, blocks.mask);
  if (options.padding.defined()) {
    const Variable same(Tensor::zeros(blocks.query.shape(), DType::f64, query.value().device()));
    y = with_other_at(y, attended(same, {.rules = masks::everything()}), options.padding);
  }
  y = outside(y);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "q", gradient_of(query));
  expect_gradient(file, "k", gradient_of(key));
  expect_gradient(file, "v", gradient_of(value));
  if (!options.causal) return;
  expect_gradient(file, "null_keys", gradient_of(null_keys));
  expect_gradient(file, "null_values", gradient_of(null_values));
}

}  // namespace longspan::golden
