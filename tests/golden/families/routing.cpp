// Attention inside clusters (lucidrains/routing-transformer).
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/clusters.h"
#include "framework/kernels/matmul.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

// Products of tokens [batch, time, heads, dim] and centroids [heads, clusters, dim]: [batch, heads,
// clusters, time].
Tensor similarities(const Tensor& tokens, const Tensor& means) {
  const Shape& shape = tokens.shape();
  const std::int64_t heads = shape[2], time = shape[1], clusters = means.shape()[1];
  const Variable first = to_heads_first(Variable(tokens));
  const Tensor scores =
      Tensor::empty({shape[0], heads, clusters, time}, DType::f64, tokens.device());
  const Tensor rows = scores.reshape({shape[0] * heads, clusters, time});
  for (std::int64_t i = 0; i < shape[0] * heads; ++i)
    on(tokens.device(), [&](auto backend) {
      matmul(backend,
             {.a = means.slice(i % heads, i % heads + 1).reshape({clusters, shape[3]}),
              .b = first.value().slice(i, i + 1).reshape({time, shape[3]}),
              .c = rows.slice(i, i + 1).reshape({clusters, time}),
              .transpose_b = true});
    });
  return scores;
}

Tensor members_of(const Tensor& scores, std::int64_t width) {
  const Shape& shape = scores.shape();
  const Tensor position = Tensor::empty(
      {shape[0], shape[2], shape[1], std::min(width, shape[3])}, DType::i32, scores.device());
  on(scores.device(),
     [&](auto backend) { cluster_members(backend, {.scores = scores, .position = position}); });
  return position;
}

Tensor nearest_of(const Tensor& scores) {
  const Shape& shape = scores.shape();
  const Tensor cluster =
      Tensor::empty({shape[0], shape[1], 1, shape[3]}, DType::i32, scores.device());
  on(scores.device(),
     [&](auto backend) { nearest_cluster(backend, {.scores = scores, .cluster = cluster}); });
  return cluster;
}

// The reference lists members by similarity, [batch, heads, clusters * width].
void expect_members(const GoldenFile& file, const std::string& name, const Tensor& position) {
  const Tensor& listed = file.ids("outputs/" + name);
  const Shape& shape = position.shape();
  const std::int64_t clusters = shape[1], heads = shape[2], width = shape[3];
  ASSERT_EQ(listed.elements(), position.elements()) << name;
  for (std::int64_t i = 0; i < shape[0] * clusters * heads; ++i) {
    const std::int64_t h = i % heads, c = i / heads % clusters, b = i / heads / clusters;
    const auto* const row = listed.data<std::int64_t>() + ((b * heads + h) * clusters + c) * width;
    std::vector<std::int64_t> expected(row, row + width);
    std::ranges::sort(expected);
    const auto* const found = position.data<std::int32_t>() + i * width;
    EXPECT_EQ(std::vector<std::int64_t>(found, found + width), expected) << name << " " << i;
  }
}

// Mean squared distance of normalized tokens [batch, time, heads, dim] to their nearest centroid.
// `clusters`: indices per element of `tokens`.
Variable distance(const std::vector<Variable>& tokens,
                  const std::vector<Tensor>& clusters,
                  const Tensor& means,
                  double factor) {
  std::vector<Tensor> values;
  std::int64_t elements = 0;
  for (const Variable& each : tokens) {
    values.push_back(each.value());
    elements += each.value().elements();
  }
  const auto difference = [=](std::size_t input, std::int64_t i) {
    const Shape& shape = values[input].shape();
    const std::int64_t dim = shape[3], h = i / dim % shape[2], t = i / dim / shape[2] % shape[1];
    const std::int64_t b = i / dim / shape[2] / shape[1];
    const std::int64_t c = clusters[input].data<std::int32_t>()[(b * shape[2] + h) * shape[1] + t];
    return values[input].data<double>()[i] -
           means.data<double>()[(h * means.shape()[1] + c) * dim + i % dim];
  };
  const double scale = factor / static_cast<double>(elements);
  const Tensor loss = Tensor::zeros({1}, DType::f64, means.device());
  for (std::size_t input = 0; input < tokens.size(); ++input)
    for (std::int64_t i = 0; i < values[input].elements(); ++i)
      *loss.data<double>() += scale * difference(input, i) * difference(input, i);
  return record(loss, tokens, [=](BackwardContext& gradients) {
    const double by = *gradients.output().data<double>();
    for (std::size_t input = 0; input < values.size(); ++input) {
      const Tensor dx = values[input].empty_like();
      for (std::int64_t i = 0; i < dx.elements(); ++i)
        dx.data<double>()[i] = by * 2 * scale * difference(input, i);
      gradients.set(input, dx);
    }
  });
}

void expect_moved_means(const GoldenFile& file,
                        const std::vector<Variable>& tokens,
                        const std::vector<Tensor>& clusters) {
  const Tensor means = file.numbers("inputs/means").clone();
  const Tensor sums = Tensor::zeros(means.shape(), DType::f64, means.device());
  const Tensor counts =
      Tensor::zeros({means.shape()[0], means.shape()[1]}, DType::f64, means.device());
  on(means.device(), [&](auto backend) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      add_cluster_sums(
          backend,
          {.x = tokens[i].value(), .cluster = clusters[i], .sums = sums, .counts = counts});
    update_centroids(backend,
                     {.centroids = means,
                      .sums = sums,
                      .counts = counts,
                      .decay = file.real("ema_decay"),
                      .unit = false});
  });
  expect_output(file, "means_after_update", means);
}

}  // namespace

void check_routing(const GoldenFile& file) {
  const bool shared = file.flag("shared_qk");
  const Variable query = leaf_of(file, "inputs/q");
  const Variable key = shared ? query : leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  const Tensor& means = file.numbers("inputs/means");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "heads", query.shape()[1]);
  expect_extent(file, "len", query.shape()[2]);
  expect_extent(file, "d_head", query.shape()[3]);
  expect_extent(file, "clusters", means.shape()[1]);
  RoutedAttention options;
  options.causal = file.flag("causal");
  options.count_floor = 1e-5;
  if (shared) options.self_score = -5e4;
  std::vector<Variable> inputs = {inside(query)};
  if (!shared) inputs.push_back(inside(key));
  std::vector<Variable> tokens;  // L2-normalized
  std::vector<Tensor> positions, clusters;
  for (const Variable& each : inputs) {
    tokens.push_back(l2_normalize(each));
    const Tensor scores = similarities(tokens.back().value(), means);
    positions.push_back(members_of(scores, file.integer("window")));
    clusters.push_back(nearest_of(scores));
  }
  options.query_position = positions.front();
  options.key_position = positions.back();
  expect_members(file, "q_indices", positions.front());
  expect_members(file, "k_indices", positions.back());
  Variable memory_key, memory_value;
  if (file.has("weights/mem_key")) {
    memory_key = leaf_of(file, "weights/mem_key");
    memory_value = leaf_of(file, "weights/mem_value");
    // [heads, clusters, rows, dim] to [clusters, rows, heads, dim].
    const auto by_cluster = [](const Variable& x) {
      const Shape& shape = x.shape();
      const Variable rows = reshape(x, {shape[0], shape[1] * shape[2], shape[3]});
      return reshape(to_heads_inner(rows, shape[0]), {shape[1], shape[2], shape[0], shape[3]});
    };
    options.memory_key = by_cluster(memory_key);
    options.memory_value = by_cluster(memory_value);
  }
  const Variable y = outside(routed_attention(
      inputs.front(), shared ? tokens.front() : inputs.back(), inside(value), options));
  const Variable loss = distance(tokens, clusters, means, file.real("commitment"));
  expect_output(file, "y", y.value());
  expect_output(file, "aux_loss", loss.value());
  expect_moved_means(file, tokens, clusters);
  backward({y, loss},
           {file.numbers("inputs/upstream_y").clone(),
            file.numbers("inputs/upstream_aux_loss").clone().reshape({1})});
  expect_gradient(file, "q", gradient_of(query));
  if (!shared) expect_gradient(file, "k", gradient_of(key));
  expect_gradient(file, "v", gradient_of(value));
  if (!memory_key.defined()) return;
  expect_gradient(file, "mem_key", gradient_of(memory_key));
  expect_gradient(file, "mem_value", gradient_of(memory_value));
}

}  // namespace longspan::golden
