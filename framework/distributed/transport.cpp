#include "framework/distributed/transport.h"

#include <algorithm>
#include <type_traits>

namespace longspan {
namespace {

constexpr std::int64_t block = 1024;  // accumulator elements: fits in the L1 cache

template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;

template <typename A>
struct Add {
  A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>)  // unsigned, so that an overflow is defined
      return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) +
                            static_cast<std::make_unsigned_t<A>>(b));
    else
      return a + b;
  }
};
template <typename A>
struct Larger {
  // A NaN on any rank propagates, as in a sum.
  A operator()(A a, A b) const { return a > b || a != a ? a : b; }
};
template <typename A>
struct Smaller {
  A operator()(A a, A b) const { return a < b || a != a ? a : b; }
};

template <typename T, typename Combine>
void reduce_blocks(std::span<const std::byte* const> sources,
                   std::span<std::byte* const> outputs,
                   std::int64_t elements,
                   Combine combine) {
  using A = Sum<T>;
  std::array<A, block> sums;
  for (std::int64_t begin = 0; begin < elements; begin += block) {
    const std::int64_t count = std::min(block, elements - begin);
    A* const accumulated = sums.data();
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < count; ++i) accumulated[i] = static_cast<A>(first[i]);
    for (const std::byte* bytes : sources.subspan(1)) {
      const T* source = reinterpret_cast<const T*>(bytes) + begin;
      for (std::int64_t i = 0; i < count; ++i)
        accumulated[i] = combine(accumulated[i], static_cast<A>(source[i]));
    }
    for (std::byte* bytes : outputs) {
      T* output = reinterpret_cast<T*>(bytes) + begin;
      for (std::int64_t i = 0; i < count; ++i) output[i] = static_cast<T>(accumulated[i]);
    }
  }
}

template <typename T>
void reduce_typed(Reduction reduction,
                  std::span<const std::byte* const> sources,
                  std::span<std::byte* const> outputs,
                  std::int64_t elements) {
  using A = Sum<T>;
  switch (reduction) {
    case Reduction::sum:
      return reduce_blocks<T>(sources, outputs, elements, Add<A>());
    case Reduction::maximum:
      return reduce_blocks<T>(sources, outputs, elements, Larger<A>());
    case Reduction::minimum:
      return reduce_blocks<T>(sources, outputs, elements, Smaller<A>());
  }
}

}  // namespace

void reduce_in_order(DType dtype,
                     Reduction reduction,
                     std::span<const std::byte* const> sources,
                     std::span<std::byte* const> outputs,
                     std::int64_t elements) {
  const auto reduce = [&](auto tag) {
    reduce_typed<typename decltype(tag)::type>(reduction, sources, outputs, elements);
  };
  switch (dtype) {
    case DType::f64:
      return reduce(TypeTag<double>());
    case DType::f32:
      return reduce(TypeTag<float>());
    case DType::bf16:
      return reduce(TypeTag<BFloat16>());
    case DType::f16:
      return reduce(TypeTag<Float16>());
    case DType::i64:
      return reduce(TypeTag<std::int64_t>());
    case DType::i32:
      return reduce(TypeTag<std::int32_t>());
    case DType::u8:
      return reduce(TypeTag<std::uint8_t>());
  }
}

}  // namespace longspan
