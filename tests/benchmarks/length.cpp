// Seconds per token of an attention type, forward and backward, at lengths of 4,096 to 1,048,576
// tokens: one sequence of width 128, 2 heads of 64 (or the heads of the type), f32. Prints the best
// of several repetitions per length and its ratio to the best length.
//   benchmark_length [KIND] [LONGEST] [SHORTEST]
// KIND is an element of model.attention.layer_types; default: sliding_window, of 256 keys. The
// stride grows with the length, so that a query of strided attention has at most 256 keys.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <string>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 64;

Tensor random_tensor(const Shape& shape, const Device& device, const Random& random) {
  Tensor result = Tensor::empty(shape, DType::f32, device);
  float* const values = result.data<float>();
#pragma omp parallel for
  for (std::int64_t i = 0; i < result.elements(); ++i)
    values[i] = random.uniform_at(static_cast<std::uint64_t>(i)) - 0.5f;
  return result;
}

std::unique_ptr<AttentionOp> mechanism_of(const AttentionOptions& options,
                                          std::int64_t time,
                                          Parameters& parameters) {
  const AttentionBuildOptions setting = {
      .layers = 1, .heads = heads, .dim = dim, .width = heads * dim, .segment = time};
  const auto patterns = attention_patterns(options, setting);
  if (const AttentionKind* const own = attention_kind(options, 0))
    return own->make(Scope(parameters), options, setting);
  return std::make_unique<SoftmaxAttention>(0, patterns.front());
}

double best_seconds(const std::string& kind, std::int64_t time, const Device& device) {
  AttentionOptions options = {.kinds = {kind}, .sliding_window = {256}, .stride = time / 256};
  Parameters parameters(device, DType::f32, ProcessMesh());
  const auto mechanism = mechanism_of(options, time, parameters);
  const ProjectionShape projections =
      mechanism->projection_shape().value_or(ProjectionShape{heads, heads, dim, dim});
  const Shape keys = {1, time, projections.key_heads, projections.key_dim};
  const Shape values = {1, time, projections.value_heads, projections.value_dim};
  const Random random(1);
  parameters.allocate(random.child("weights"));
  const auto leaf = [&](const Shape& shape, const char* name) {
    return Variable::leaf(random_tensor(shape, device, random.child(name)));
  };
  const bool has_query = mechanism->projects_query_and_key();
  const Variable query = has_query ? leaf(keys, "query") : Variable();
  const Variable value = leaf(values, "value");
  const Variable key = !has_query || mechanism->ties_query_and_key() ? query : leaf(keys, "key");
  const Variable input = leaf({1, time, heads * dim}, "input");
  const Tensor upstream = random_tensor(values, device, random.child("upstream"));
  AttentionContext context;
  if (mechanism->reads_first_value())
    context.first_value = Variable(
        random_tensor({1, time, values[2] * values[3]}, device, random.child("first value")));
  double best = std::numeric_limits<double>::infinity();
  // The first call creates the plan and allocates memory.
  const std::int64_t repetitions = std::clamp<std::int64_t>((1 << 18) / time, 2, 20);
  for (std::int64_t i = 0; i <= repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Variable y =
        (*mechanism)({.query = query,
                      .key = key,
                      .value = value,
                      .heads = {.count = values[2], .total = values[2]},
                      .input = input},
                     context,
                     {.training = true, .random = random.child(static_cast<std::uint64_t>(i))});
    backward({y}, {upstream});
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (i > 0) best = std::min(best, passed.count());
    for (const Variable& x : {query, key, value, input})
      if (x.defined()) x.clear_gradient();
  }
  return best;
}

// Alternates between the lengths several times, because the speed of a shared machine changes.
void run(const std::string& kind, std::int64_t longest, std::int64_t shortest) {
  constexpr int turns = 3;
  const Device device = Device::cpu();
  fmt::print("{}, {} threads\n", kind, omp_get_max_threads());
  std::map<std::int64_t, double> of_length;
  for (int turn = 0; turn < turns; ++turn)
    for (std::int64_t time = shortest; time <= longest; time *= 4) {
      const double each = best_seconds(kind, time, device) / static_cast<double>(time);
      const auto [entry, fresh] = of_length.try_emplace(time, each);
      entry->second = std::min(entry->second, each);
    }
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const auto& [time, each] : of_length) {
    least = std::min(least, each);
    most = std::max(most, each);
    fmt::print("{:>9} tokens: {:.3f} microseconds a token\n", time, 1e6 * each);
  }
  fmt::print("the slowest length takes {:.2f} times as long a token as the fastest\n",
             most / least);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  longspan::run(count > 1 ? words[1] : "sliding_window",
                count > 2 ? std::stoll(words[2]) : 1 << 20,
                count > 3 ? std::stoll(words[3]) : 1 << 12);
  return 0;
}
