#include "framework/nn/attention/attention_recorder.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/element.h"

namespace longspan {
namespace {

// Returns the elements on the host, in f64.
std::vector<double> wide_numbers_of(const Tensor& tensor) {
  const Tensor here = to_host_f64(tensor);
  const auto all = here.span<double>();
  return {all.begin(), all.end()};
}

// Returns an element for a head in the first row of x [batch, time, heads, dim].
double at(const std::vector<double>& x,
          const Shape& shape,
          std::int64_t time,
          std::int64_t head,
          std::int64_t feature) {
  return x[static_cast<std::size_t>((time * shape[2] + head) * shape[3] + feature)];
}

// Returns values such that the value of key `first` + i has only feature i.
Variable basis(const Variable& value, std::int64_t first) {
  const Shape& shape = value.shape();
  std::vector<double> numbers(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t row = 0; row < shape[0]; ++row)
    for (std::int64_t i = 0; i < std::min(shape[3], shape[1] - first); ++i)
      for (std::int64_t head = 0; head < shape[2]; ++head)
        numbers[static_cast<std::size_t>(
            (((row * shape[1] + first + i) * shape[2] + head) * shape[3]) + i)] = 1;
  const Device& device = value.value().device();
  if (value.value().dtype() == DType::f64)
    return Variable(Tensor::from(std::span<const double>(numbers), shape, device));
  require(value.value().dtype() == DType::f32, "attention maps require float32 or float64");
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return Variable(Tensor::from(std::span<const float>(narrow), shape, device));
}

// Returns whether the recorded weights reproduce the layer's output from the values.
bool explains(const AttentionMap& map, const Variable& value, const Variable& mixed) {
  const std::vector<double> values = wide_numbers_of(value.value()),
                            results = wide_numbers_of(mixed.value());
  const Shape &of_values = value.shape(), &of_results = mixed.shape();
  const std::int64_t value_head = map.head * of_values[2] / of_results[2];
  double largest = 0, error = 0;
  for (std::int64_t time = 0; time < of_results[1]; ++time)
    for (std::int64_t feature = 0; feature < of_results[3]; ++feature) {
      double sum = 0;
      for (std::int64_t key = 0; key < map.keys; ++key)
        sum += map.weights[static_cast<std::size_t>(time * map.keys + key)] *
               at(values, of_values, key, value_head, feature);
      const double wanted = at(results, of_results, time, map.head, feature);
      largest = std::max(largest, std::abs(wanted));
      error = std::max(error, std::abs(wanted - sum));
    }
  constexpr double rounding = 1e-3;
  return error <= rounding * largest;
}

}  // namespace

[[noreturn]] static void throw_without_weights(std::int64_t layer) {
  throw ConfigurationError(
      "attention layer {} does not compute attention weights; its maps cannot be shown", layer);
}

void AttentionRecorder::see(const AttentionOp& mechanism,
                            const ProjectedQKV& projected,
                            const AttentionContext& context,
                            const ForwardContext& pass,
                            const Variable& mixed) {
  const std::int64_t layer = layers_++;
  std::vector<AttentionMap> maps;
  const Shape shape = projected.value.defined() ? projected.value.shape() : Shape();
  for (const Head& wanted : expected_) {
    if (wanted.layer != layer) continue;
    if (!projected.value.defined()) throw_without_weights(layer);
    if (wanted.head < 0 || wanted.head >= mixed.shape()[2])
      throw ConfigurationError("attention layer {} has heads 0 to {}, requested head {}",
                               layer,
                               mixed.shape()[2] - 1,
                               wanted.head);
    maps.push_back({layer, wanted.head, shape[1]});
    maps.back().weights.resize(static_cast<std::size_t>(mixed.shape()[1] * shape[1]));
  }
  if (maps.empty()) return;
  for (std::int64_t first = 0; first < shape[1]; first += shape[3]) {
    ProjectedQKV asked = projected;
    asked.value = basis(projected.value, first);
    if (asked.global) asked.global->value = asked.value;
    const Variable found = mechanism(asked, context, pass);
    const std::vector<double> numbers = wide_numbers_of(found.value());
    for (AttentionMap& map : maps)
      for (std::int64_t time = 0; time < found.shape()[1]; ++time)
        for (std::int64_t i = 0; i < std::min(shape[3], shape[1] - first); ++i)
          map.weights[static_cast<std::size_t>(time * map.keys + first + i)] =
              at(numbers, found.shape(), time, map.head, i);
  }
  for (AttentionMap& map : maps) {
    if (!projected.global && !explains(map, projected.value, mixed)) throw_without_weights(layer);
    maps_.push_back(std::move(map));
  }
}

}  // namespace longspan
