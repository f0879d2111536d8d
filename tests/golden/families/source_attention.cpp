// Guided alignment (Marian, fairseq) and the pointer-generator distribution (fairseq).
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/collectives.h"
#include "framework/autograd/losses.h"
#include "framework/autograd/ops.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

using testing::Values;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// [src, batch, tgt] to [batch, tgt, src], and back.
Tensor source_last(const Tensor& x) {
  const std::int64_t n = x.shape()[0], rows = x.elements() / n;
  const Values from = testing::values_of(x);
  Values to(from.size());
  for (std::int64_t s = 0; s < n; ++s)
    for (std::int64_t row = 0; row < rows; ++row) to[at(row * n + s)] = from[at(s * rows + row)];
  return testing::tensor_of<double>(to, {x.shape()[1], x.shape()[2], n});
}
Tensor source_first(const Tensor& x) {
  const std::int64_t n = x.shape()[2], rows = x.elements() / n;
  const Values from = testing::values_of(x);
  Values to(from.size());
  for (std::int64_t s = 0; s < n; ++s)
    for (std::int64_t row = 0; row < rows; ++row) to[at(s * rows + row)] = from[at(row * n + s)];
  return testing::tensor_of<double>(to, {n, x.shape()[0], x.shape()[1]});
}

// The links of each target sum to 1.
Tensor normalized(const Tensor& links) {
  const std::int64_t n = links.shape()[2];
  Values values = testing::values_of(links);
  for (std::size_t row = 0; row < values.size(); row += at(n)) {
    double sum = 0;
    for (std::size_t s = row; s < row + at(n); ++s) sum += values[s];
    for (std::size_t s = row; s < row + at(n) && sum > 0; ++s) values[s] /= sum;
  }
  return testing::tensor_of<double>(values, links.shape());
}

// Requires links within both lengths.
void expect_links_within(const GoldenFile& file, const Tensor& links) {
  const Tensor &source = file.ids("inputs/src_length"), &target = file.ids("inputs/tgt_length");
  const Values values = testing::values_of(links);
  const std::int64_t time = links.shape()[1], n = links.shape()[2];
  for (std::int64_t i = 0; i < links.elements(); ++i) {
    const std::int64_t batch = i / n / time;
    if (values[at(i)] == 0) continue;
    EXPECT_LT(i % n, source.data<std::int64_t>()[batch]) << file.name();
    EXPECT_LT(i / n % time, target.data<std::int64_t>()[batch]) << file.name();
  }
}

Tensor scalar(double value) { return testing::tensor_of<double>({value}, {1}); }

void expect_integer(const GoldenFile& file, const std::string& name, std::int64_t found) {
  EXPECT_EQ(file.ids("outputs/" + name).data<std::int64_t>()[0], found)
      << file.name() << ": " << name;
}

double upstream_of(const GoldenFile& file, const std::string& name) {
  return file.numbers("inputs/upstream_" + name).data<double>()[0];
}

}  // namespace

void check_guided_alignment(const GoldenFile& file) {
  const Variable attention = Variable::leaf(source_last(file.numbers("inputs/attention")));
  const Tensor& alignment = file.ids("inputs/alignment");
  const auto point_ids = alignment.span<std::int64_t>();
  const Tensor points = source_last(
      testing::tensor_of<double>(Values(point_ids.begin(), point_ids.end()), alignment.shape()));
  const Tensor share = normalized(points);
  expect_extent(file, "batch", points.shape()[0]);
  expect_extent(file, "tgt_len", points.shape()[1]);
  expect_extent(file, "src_len", points.shape()[2]);
  expect_links_within(file, points);

  constexpr double epsilon = 1e-6;  // as in Marian
  std::vector<Variable> roots;
  std::vector<Tensor> seeds;
  const auto check = [&](const std::string& name, const Variable& losses) {
    roots.push_back(sum(losses));
    seeds.push_back(scalar(upstream_of(file, name)));
    expect_output(file, name, roots.back().value());
  };
  check("ce",
        guided_attention_losses(attention, share, GuidedAttentionLoss::cross_entropy, epsilon));
  check("fairseq", guided_attention_losses(attention, share, GuidedAttentionLoss::cross_entropy));
  check("mse", guided_attention_losses(attention, points, GuidedAttentionLoss::square));
  const Variable product =
      sum(guided_attention_losses(attention, points, GuidedAttentionLoss::product));
  const double met = product.value().item() + epsilon;
  expect_output(file, "mult", scalar(-std::log(met)));
  roots.push_back(product);
  seeds.push_back(scalar(-upstream_of(file, "mult") / met));
  backward(roots, std::move(seeds));
  expect_gradient(file, "attention", source_first(gradient_of(attention)));

  // Divisors: links, real target tokens, and all attention weights.
  double links = 0;
  for (const double value : testing::values_of(points)) links += value;
  std::int64_t words = 0;
  for (const std::int64_t length : file.ids("inputs/tgt_length").span<std::int64_t>())
    words += length;
  expect_integer(file, "ce_labels", std::llround(links));
  expect_integer(file, "ce_old_labels", words);
  expect_integer(file, "mse_labels", points.elements());
}

// Computes the probability of every id at every position by taking each id as the target.
void check_pointer_generator(const GoldenFile& file) {
  const Variable features = leaf_of(file, "inputs/features");
  const Variable before = leaf_of(file, "inputs/prev_embedding");
  const Variable attention = leaf_of(file, "inputs/attention");
  const Variable projection = leaf_of(file, "weights/output_projection");
  const Variable bias = leaf_of(file, "weights/p_gen_bias");
  const Tensor& source = file.ids("inputs/src_tokens");
  const std::int64_t batch = attention.shape()[0], time = attention.shape()[1];
  const std::int64_t vocabulary = projection.shape()[0], rows = batch * time;
  const std::int64_t ids = vocabulary + file.integer("oov");
  const std::int64_t width = before.shape()[2];
  expect_extent(file, "batch", batch);
  expect_extent(file, "tgt_len", time);
  expect_extent(file, "src_len", attention.shape()[2]);
  expect_extent(file, "d", features.shape()[2]);
  expect_extent(file, "d_embed", width);
  expect_extent(file, "vocab", vocabulary);
  // Padding receives no attention.
  bool has_unseen = false;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t s = 0; s < source.shape()[1]; ++s) {
      bool is_unseen = true;
      for (std::int64_t t = 0; t < time; ++t)
        is_unseen &= attention.value().data<double>()[(b * time + t) * source.shape()[1] + s] == 0;
      has_unseen |= is_unseen;
    }
  EXPECT_TRUE(file.flag("padding") || !has_unseen) << file.name();

  // The gate weights cover [embedding; features].
  const Values gate_weights = testing::values_of(file.numbers("weights/p_gen_weight"));
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return Variable::leaf(testing::tensor_of<double>(
        Values(gate_weights.begin() + begin, gate_weights.begin() + end), {1, end - begin}));
  };
  const Variable of_embedding = part(0, width), of_features = part(width, std::ssize(gate_weights));
  const Variable gate = reshape(
      add(linear(before, of_embedding, Variable()), linear(features, of_features, bias)), {rows});
  Values open = testing::values_of(gate.value());
  for (double& value : open) value = 1 / (1 + std::exp(-value));
  expect_output(file, "p_gen", testing::tensor_of<double>(open, {batch, time, 1}));

  const Values upstream = testing::values_of(file.numbers("inputs/upstream"));
  const Tensor distribution = Tensor::zeros({rows, ids}, DType::f64, testing::backend_device());
  std::vector<Variable> roots;
  std::vector<Tensor> seeds;
  for (std::int64_t id = 0; id < ids; ++id) {
    const std::vector<std::int64_t> all(at(rows), id);
    const Tensor targets = testing::ids_of(all);
    Variable generated = cross_entropy(
        linear(features, projection, Variable()), targets, {.vocabulary = vocabulary}, {});
    if (id >= vocabulary)  // not a class of the softmax
      generated = Variable(testing::tensor_of<double>(Values(at(rows), testing::infinity), {rows}));
    const Variable copied =
        reshape(copy_probability(attention, source, targets.reshape({batch, time})), {rows});
    const Variable losses = pointer_generator_losses(generated, gate, copied, targets);
    Values seed = testing::values_of(losses.value());
    // An id without attention has probability 0 and no loss, so the gradient of its copy
    // probability is set directly.
    Values seed_of_copies(at(rows), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const double probability = std::exp(-seed[at(row)]);
      const double seed_weight = upstream[at(row * ids + id)];
      distribution.data<double>()[row * ids + id] = probability;
      if (probability == 0) seed_of_copies[at(row)] = (1 - open[at(row)]) * seed_weight;
      seed[at(row)] = -probability * seed_weight;
    }
    roots.push_back(losses);
    seeds.push_back(testing::tensor_of<double>(seed, {rows}));
    roots.push_back(copied);
    seeds.push_back(testing::tensor_of<double>(seed_of_copies, {rows}));
  }
  expect_output(file, "distribution", distribution);
  backward(roots, std::move(seeds));
  expect_gradient(file, "features", gradient_of(features));
  expect_gradient(file, "prev_embedding", gradient_of(before));
  expect_gradient(file, "attention", gradient_of(attention));
  expect_gradient(file, "output_projection", gradient_of(projection));
  expect_gradient(file, "p_gen_bias", gradient_of(bias));
  Values of_gate = testing::values_of(gradient_of(of_embedding));
  for (const double value : testing::values_of(gradient_of(of_features))) of_gate.push_back(value);
  expect_gradient(
      file, "p_gen_weight", testing::tensor_of<double>(of_gate, {1, std::ssize(of_gate)}));
}

}  // namespace longspan::golden
