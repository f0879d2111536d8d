#include "framework/kernels/monotonic_attention.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::monotonic_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 3, time = 4, positions = 5;
constexpr std::int64_t sources[batch] = {5, 3, 0}, targets[batch] = {4, 2, 4};

std::size_t at(std::int64_t b, std::int64_t t, std::int64_t s) {
  return static_cast<std::size_t>((b * time + t) * positions + s);
}

// Probabilities of each row over its source.
Values attention() {
  Values values = normal_values<double>(batch * time * positions, 1);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < time; ++t) {
      double total = 0;
      for (std::int64_t s = 0; s < positions; ++s)
        total += values[at(b, t, s)] = s < sources[b] ? std::exp(2 * values[at(b, t, s)]) : 0;
      for (std::int64_t s = 0; s < sources[b]; ++s) values[at(b, t, s)] /= total;
    }
  return values;
}

// Equation 8 of Raffel et al. 2017.
Values walk_of(const Values& a) {
  Values walk(a.size(), 0);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < targets[b]; ++t) {
      const auto stops = [&](std::int64_t s) {
        double rest = 0;
        for (std::int64_t l = s; l < sources[b]; ++l) rest += a[at(b, t, l)];
        return a[at(b, t, s)] / rest;
      };
      for (std::int64_t s = 0; s < sources[b]; ++s) {
        double sum = 0;
        for (std::int64_t k = 0; k <= s; ++k) {
          double comes = t == 0 ? (k == 0 ? 1 : 0) : walk[at(b, t - 1, k)];
          for (std::int64_t l = k; l < s; ++l) comes *= 1 - stops(l);
          sum += comes;
        }
        walk[at(b, t, s)] = stops(s) * sum;
      }
    }
  return walk;
}

template <typename A>
Values found(const Values& a) {
  const MonotonicAttention call = {.attention = tensor_of<A>(a, {batch, time, positions}),
                                   .source = ids_of({sources[0], sources[1], sources[2]}),
                                   .target = ids_of({targets[0], targets[1], targets[2]}),
                                   .walk = poisoned<A>({batch, time, positions})};
  monotonic_attention(backend(), call);
  return values_of(call.walk);
}

TEST(MonotonicAttention, MatchesRecurrenceOfPaper) {
  const Values a = attention(), expected = walk_of(a);
  expect_close(found<double>(a), expected, 1e-14);
  expect_close(found<float>(a), expected, 1e-5);
  for (std::int64_t t = 0; t < time; ++t) {
    double sum = 0;
    for (std::int64_t s = 0; s < positions; ++s) sum += expected[at(0, t, s)];
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(MonotonicAttention, KeepsMonotonicOneHotAttention) {
  Values a(batch * time * positions, 0);
  for (std::int64_t t = 0; t < time; ++t) a[at(0, t, t == 0 ? 0 : t + 1)] = 1;
  for (std::int64_t t = 0; t < targets[1]; ++t) a[at(1, t, 2)] = 1;
  EXPECT_EQ(found<double>(a), a);
}

}  // namespace
}  // namespace longspan::monotonic_attention_test
