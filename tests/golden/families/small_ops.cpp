// Layer norm, GELU, label smoothing and sinusoidal positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"
#include "framework/nn/positions.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

double total_of(const Tensor& tensor) {
  double total = 0;
  for (const double value : tensor.span<double>()) total += value;
  return total;
}

Tensor one_number(double value) { return testing::tensor_of<double>({value}, {1}); }

// The file's name without the prefix of its family.
std::string ending(const GoldenFile& file, const std::string& prefix) {
  return file.name().substr(prefix.size());
}

// Ignored ids become negative.
Tensor without(const Tensor& ids, std::int64_t ignored) {
  const Tensor result = ids.clone();
  for (std::int64_t& id : result.span<std::int64_t>())
    if (ignored >= 0 && id == ignored) id = -1;
  return result;
}

// Padding has position `padding`; other tokens count on from it (fairseq).
Tensor fairseq_positions(const Tensor& ids, std::int64_t padding) {
  const Tensor result = ids.empty_like();
  const std::int64_t length = ids.shape()[1];
  for (std::int64_t row = 0; row < ids.shape()[0]; ++row) {
    std::int64_t seen = 0;
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i)
      result.data<std::int64_t>()[i] =
          ids.data<std::int64_t>()[i] == padding ? padding : padding + ++seen;
  }
  return result;
}

void check_fairseq_sinusoids(const GoldenFile& file, const Variable& embeddings, double scale) {
  const std::int64_t padding = file.integer("padding_idx");
  const Tensor& ids = file.ids("inputs/ids");
  const Tensor positions = fairseq_positions(ids, padding);
  EXPECT_EQ(testing::same_bits(positions, file.ids("outputs/positions")), true) << file.name();
  const Tensor table = sinusoids(SinusoidLayout::halves_geometric,
                                 0,
                                 file.numbers("outputs/table").shape()[0],
                                 embeddings.shape()[1],
                                 -1,
                                 DType::f64,
                                 testing::backend_device());
  table.slice(padding, padding + 1).zero();
  expect_output(file, "table", table);
  // The padding row has a value but no gradient.
  const Tensor real = without(ids, padding);
  Tensor pads = ids.clone();
  for (std::int64_t& id : pads.span<std::int64_t>())
    if (id != padding) id = -1;
  const Variable words =
      add(embedding(embeddings, real, 0, scale), embedding(embeddings.detach(), pads, 0, scale));
  const Variable y = add(words, embedding(Variable(table), positions, 0, 1));
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
}

}  // namespace

void check_layer_norm(const GoldenFile& file) {
  const Variable x = leaf_of(file, "inputs/x");
  const Variable gain = leaf_of(file, "weights/gain");
  const Variable bias = leaf_of(file, "weights/bias");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "d", x.shape()[2]);
  const Variable y = layer_norm(x, gain, bias, file.real("eps"));
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
  expect_gradient(file, "gain", gradient_of(gain));
  expect_gradient(file, "bias", gradient_of(bias));
}

void check_gelu(const GoldenFile& file) {
  const std::string kind = ending(file, "small_ops-gelu_");
  if (kind != "exact" && kind != "tanh")
    throw DataError("{}: there is no such case of gelu", file.name());
  const Variable x = leaf_of(file, "inputs/x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "d", x.shape()[1]);
  const Variable y = activate(kind == "exact" ? Activation::gelu : Activation::gelu_tanh, x);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
}

void check_label_smoothing(const GoldenFile& file) {
  const std::string kind = ending(file, "small_ops-xent_label_smoothing_");
  const bool fairseq = kind == "fairseq";
  if (!fairseq && kind != "torch")
    throw DataError("{}: there is no such case of label smoothing", file.name());
  const Variable logits = leaf_of(file, "inputs/logits");
  expect_extent(file, "n", logits.shape()[0]);
  expect_extent(file, "vocab", logits.shape()[1]);
  const Tensor targets = without(file.ids("inputs/target"), file.integer("ignore_index"));
  const auto losses = [&](double smoothing) {
    Variable handed = logits;
    return cross_entropy(
        std::move(handed),
        targets,
        {.vocabulary = logits.shape()[1],
         .smoothing = smoothing,
         .kind = fairseq ? LabelSmoothingStyle::wrong_classes : LabelSmoothingStyle::all_classes},
        Communicator());
  };
  const Variable each = losses(file.real("epsilon"));
  const double total = total_of(each.value());
  const auto counted = static_cast<double>(
      std::ranges::count_if(targets.span<std::int64_t>(), [](auto id) { return id >= 0; }));
  if (fairseq) {
    expect_output(file, "loss", one_number(total));
    expect_output(file, "nll", one_number(total_of(losses(0).value())));
  } else {
    expect_output(file, "loss_each", each.value());
    expect_output(file, "loss_sum", one_number(total));
    expect_output(file, "loss_mean", one_number(total / counted));
  }
  const double upstream = file.numbers("inputs/upstream").data<double>()[0];
  backward(sum(each, fairseq ? upstream : upstream / counted));
  expect_gradient(file, "logits", gradient_of(logits));
}

void check_sinusoids(const GoldenFile& file) {
  const std::string kind = ending(file, "small_ops-embedding_sinusoid_");
  const Variable embeddings = leaf_of(file, "weights/embedding");
  const Tensor& ids = file.ids("inputs/ids");
  const std::int64_t width = file.integer("d_model");
  expect_extent(file, "batch", ids.shape()[0]);
  expect_extent(file, "len", ids.shape()[1]);
  expect_extent(file, "vocab", embeddings.shape()[0]);
  expect_extent(file, "d_model", embeddings.shape()[1]);
  const double scale = std::sqrt(static_cast<double>(width));
  if (kind == "fairseq") {
    check_fairseq_sinusoids(file, embeddings, scale);
  } else if (kind == "halves" || kind == "interleaved") {
    const Tensor table =
        sinusoids(kind == "halves" ? SinusoidLayout::halves : SinusoidLayout::interleaved,
                  0,
                  ids.shape()[1],
                  width,
                  -1,
                  DType::f64,
                  testing::backend_device());
    expect_output(file, "positions", table);
    const Variable y =
        scale_and_add_positions(embedding(embeddings, ids, 0, 1), scale, Variable(table));
    expect_output(file, "y", y.value());
    backward({y}, {file.numbers("inputs/upstream").clone()});
  } else {
    throw DataError("{}: there is no such layout of sinusoids", file.name());
  }
  expect_gradient(file, "embedding", gradient_of(embeddings));
}

}  // namespace longspan::golden
