#include "tests/golden/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

std::size_t row_bytes(const Tensor& tensor) {
  const std::int64_t rows = tensor.shape()[0];
  return rows == 0 ? 0 : tensor.byte_size() / static_cast<std::size_t>(rows);
}

}  // namespace

FeedForwardActivation activation_of(const GoldenFile& file) {
  const std::string& name = file.text("activation");
  if (name == "relu") return FeedForwardActivation::relu;
  if (name == "gelu") return FeedForwardActivation::gelu;
  if (name == "gelu_tanh") return FeedForwardActivation::gelu_tanh;
  throw DataError("{}: there is no activation {}", file.name(), name);
}

void expect_near(const std::string& what,
                 const Tensor& found,
                 const Tensor& expected,
                 double tolerance) {
  ASSERT_EQ(found.elements(), expected.elements()) << what;
  if (expected.elements() == 0) return;
  const auto reference = expected.span<double>();
  double largest = 1;
  for (const double value : reference) largest = std::max(largest, std::abs(value));
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double difference = std::abs(found.data<double>()[i] - reference[i]);
    if (difference <= worst) continue;
    worst = difference;
    where = i;
    if (std::isnan(worst)) break;
  }
  EXPECT_LE(worst, tolerance * largest)
      << what << ": element " << where << " is " << found.data<double>()[where] << ", expected "
      << reference[where];
}

void expect_output(const GoldenFile& file, const std::string& name, const Tensor& found) {
  const std::string dataset = "outputs/" + name;
  expect_near(file.name() + ": " + dataset, found, file.numbers(dataset), output_tolerance);
}

void expect_gradient(const GoldenFile& file, const std::string& name, const Tensor& found) {
  const std::string dataset = "gradients/" + name;
  expect_near(file.name() + ": " + dataset, found, file.numbers(dataset), gradient_tolerance);
}

void expect_extent(const GoldenFile& file, const std::string& attribute, std::int64_t found) {
  EXPECT_EQ(file.integer(attribute), found) << file.name() << ": " << attribute;
}

Variable leaf_of(const GoldenFile& file, const std::string& dataset) {
  return Variable::leaf(file.numbers(dataset).clone());
}

Tensor gradient_of(const Variable& leaf) {
  const Tensor gradient = leaf.gradient();
  return gradient.defined() ? gradient
                            : Tensor::zeros(leaf.shape(), DType::f64, testing::backend_device());
}

void load(const GoldenFile& file,
          const std::string& weight,
          const Parameters& parameters,
          const std::vector<std::string>& names) {
  const Tensor& stacked = file.numbers("weights/" + weight);
  const Tensor elements = stacked.reshape({stacked.elements()});
  std::int64_t begin = 0;
  for (const std::string& name : names) {
    const Parameter& parameter = parameters.named(name);
    const std::int64_t end = begin + parameter.master.elements();
    if (end > stacked.elements())
      throw DataError("{}: {} of shape {} does not fit {} of shape {}",
                      file.name(),
                      weight,
                      stacked.shape().to_string(),
                      parameter.name,
                      parameter.shape.to_string());
    parameter.master.copy_from(elements.slice(begin, end).reshape(parameter.master.shape()));
    begin = end;
  }
  if (begin != stacked.elements())
    throw DataError("{}: {} of {} elements of {} fit the parameters",
                    file.name(),
                    begin,
                    stacked.elements(),
                    weight);
}

void expect_weight_gradient(const GoldenFile& file,
                            const std::string& weight,
                            const Parameters& parameters,
                            const std::vector<std::string>& names) {
  testing::Values found;
  for (const std::string& name : names) {
    const Parameter& parameter = parameters.named(name);
    const Tensor gradient = gradient_of(parameter.variable).slice(0, parameter.shape[0]);
    for (const double value : testing::values_of(gradient)) found.push_back(value);
  }
  expect_gradient(file, weight, testing::tensor_of<double>(found, {std::ssize(found)}));
}

void load(const GoldenFile& file,
          const std::vector<WeightName>& names,
          const Parameters& parameters) {
  std::size_t loaded = 0;
  for (const WeightName& name : names) {
    load(file, name.weight, parameters, name.parameters);
    loaded += name.parameters.size();
  }
  if (loaded != parameters.all().size())
    throw DataError(
        "{}: {} of {} parameters come from the file", file.name(), loaded, parameters.all().size());
  parameters.refresh_compute();
}

void expect_weight_gradients(const GoldenFile& file,
                             const std::vector<WeightName>& names,
                             const Parameters& parameters) {
  for (const WeightName& name : names)
    expect_weight_gradient(file, name.weight, parameters, name.parameters);
}

Tensor exchanged_leading_axes(const Tensor& tensor) {
  const std::int64_t a = tensor.shape()[0];
  const std::int64_t b = tensor.shape()[1];
  const Tensor result =
      Tensor::empty(tensor.shape().with(0, b).with(1, a), tensor.dtype(), tensor.device());
  if (tensor.elements() == 0) return result;
  const std::size_t cell = tensor.byte_size() / static_cast<std::size_t>(a * b);
  for (std::int64_t i = 0; i < a; ++i)
    for (std::int64_t j = 0; j < b; ++j)
      std::memcpy(result.bytes() + static_cast<std::size_t>(j * a + i) * cell,
                  tensor.bytes() + static_cast<std::size_t>(i * b + j) * cell,
                  cell);
  return result;
}

Tensor reversed(const Tensor& tensor) {
  const Tensor result = tensor.empty_like();
  const std::size_t bytes = row_bytes(tensor);
  const auto rows = static_cast<std::size_t>(tensor.shape()[0]);
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(result.bytes() + (rows - 1 - i) * bytes, tensor.bytes() + i * bytes, bytes);
  return result;
}

Variable by_row(const Variable& x) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], 1, shape[2]});
}

Variable inside(const Variable& x) {
  const Shape& shape = x.shape();
  return to_heads_inner(reshape(x, {shape[0] * shape[1], shape[2], shape[3]}), shape[1]);
}
Variable outside(const Variable& x) {
  const Shape& shape = x.shape();
  return reshape(to_heads_first(x), {shape[0], shape[2], shape[1], shape[3]});
}

Variable tanh_of(const Variable& x) {
  const Tensor y = x.value().clone();
  for (double& value : y.span<double>()) value = std::tanh(value);
  return record(y, {x}, [y](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    for (std::int64_t i = 0; i < dx.elements(); ++i)
      dx.data<double>()[i] *= 1 - y.data<double>()[i] * y.data<double>()[i];
    gradients.set(0, dx);
  });
}

Tensor mask_of(const GoldenFile& file, const std::string& dataset) {
  const Tensor& numbers = file.ids(dataset);
  const Tensor mask = Tensor::empty(numbers.shape(), DType::u8, numbers.device());
  for (std::int64_t i = 0; i < numbers.elements(); ++i) {
    const std::int64_t value = numbers.data<std::int64_t>()[i];
    if (value != 0 && value != 1)
      throw DataError("{}: {} holds {}, wanted 0 or 1", file.name(), dataset, value);
    mask.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
  }
  return mask;
}

Tensor padding_of(const GoldenFile& file) {
  for (const std::string name : {"key_padding_mask",
                                 "padding_mask",
                                 "src_padding_mask",
                                 "src_key_padding_mask",
                                 "memory_padding_mask",
                                 "memory_key_padding_mask"})
    if (file.has("inputs/" + name)) return mask_of(file, "inputs/" + name);
  for (const std::string name : {"mask", "input_mask", "attention_mask", "key_mask", "kv_mask"})
    if (file.has("inputs/" + name)) {
      const Tensor padding = mask_of(file, "inputs/" + name);
      for (std::uint8_t& seen : padding.span<std::uint8_t>()) seen = 1 - seen;
      return padding;
    }
  throw DataError("{}: there is no mask", file.name());
}

Tensor document_positions(const GoldenFile& file) {
  if (!file.has("inputs/document")) return {};
  const Tensor& document = file.ids("inputs/document");
  const Tensor result = document.empty_like();
  const std::int64_t time = document.shape()[1];
  for (std::int64_t i = 0; i < document.elements(); ++i) {
    const auto* const id = document.data<std::int64_t>() + i;
    const bool first = i % time == 0;
    const std::int64_t before = first ? 1000 : result.data<std::int64_t>()[i - 1];
    result.data<std::int64_t>()[i] = first || id[0] == id[-1] ? before + 1 : 0;
  }
  return result;
}

}  // namespace longspan::golden
