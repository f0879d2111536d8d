// Comparisons, and conversions between types.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "framework/core/dtype.h"
#include "tests/support/ptx/actions.h"

namespace ptx {
namespace {

using longspan::BFloat16;
using longspan::Float16;

template <typename T, auto compare>
void compares(Thread& t, const Instruction& i) {
  t.put(i, 0, compare(t.number<T>(i, 1), t.number<T>(i, 2)));
}
constexpr auto equal = [](auto a, auto b) { return a == b; };
constexpr auto unequal = [](auto a, auto b) { return a < b || b < a; };
constexpr auto less = [](auto a, auto b) { return a < b; };
constexpr auto less_or_equal = [](auto a, auto b) { return a <= b; };
constexpr auto greater = [](auto a, auto b) { return b < a; };
constexpr auto greater_or_equal = [](auto a, auto b) { return b <= a; };
// Unordered comparisons are true for NaN.
constexpr auto not_unequal = [](auto a, auto b) { return !unequal(a, b); };
constexpr auto not_equal = [](auto a, auto b) { return !equal(a, b); };
constexpr auto not_greater_or_equal = [](auto a, auto b) { return !greater_or_equal(a, b); };
constexpr auto not_greater = [](auto a, auto b) { return !greater(a, b); };
constexpr auto not_less_or_equal = [](auto a, auto b) { return !less_or_equal(a, b); };
constexpr auto not_less = [](auto a, auto b) { return !less(a, b); };
constexpr auto ordered = [](auto a, auto b) { return equal(a, a) && equal(b, b); };
constexpr auto unordered = [](auto a, auto b) { return !ordered(a, b); };

Action comparison(std::string_view how, std::string_view type) {
  const auto of = [&]<auto compare>() {
    return with_type(
        type, [](auto t) -> Action { return compares<typename decltype(t)::type, compare>; });
  };
  if (how == "eq") return of.template operator()<equal>();
  if (how == "ne") return of.template operator()<unequal>();
  if (how == "lt" || how == "lo") return of.template operator()<less>();
  if (how == "le" || how == "ls") return of.template operator()<less_or_equal>();
  if (how == "gt" || how == "hi") return of.template operator()<greater>();
  if (how == "ge" || how == "hs") return of.template operator()<greater_or_equal>();
  if (how == "equ") return of.template operator()<not_unequal>();
  if (how == "neu") return of.template operator()<not_equal>();
  if (how == "ltu") return of.template operator()<not_greater_or_equal>();
  if (how == "leu") return of.template operator()<not_greater>();
  if (how == "gtu") return of.template operator()<not_less_or_equal>();
  if (how == "geu") return of.template operator()<not_less>();
  if (how == "num") return of.template operator()<ordered>();
  if (how == "nan") return of.template operator()<unordered>();
  return nullptr;
}

// Rounds by `how`. Integers are clamped to their range. NaN becomes 0, or if either type has 64
// bits the highest bit.
template <typename To, typename From>
To rounded(From x, std::string_view how) {
  const From whole = how == "rzi"   ? std::trunc(x)
                     : how == "rmi" ? std::floor(x)
                     : how == "rpi" ? std::ceil(x)
                                    : std::nearbyint(x);
  if constexpr (std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    constexpr bool is_long = sizeof(To) == 8 || sizeof(From) == 8;
    if (std::isnan(x))
      return is_long ? static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1)) : To{0};
    if (whole <= static_cast<From>(Limits::min())) return Limits::min();
    if (whole >= static_cast<From>(Limits::max())) return Limits::max();
  }
  return static_cast<To>(whole);
}

// `cvt` by the parts of its name: rounding modes, then the types.
Action conversion(std::span<const std::string_view> parts) {
  const std::string_view to = parts[parts.size() - 2], from = parts.back();
  const bool saturates = std::ranges::find(parts, "sat") != parts.end();
  std::string_view how;
  for (const std::string_view part : parts.first(parts.size() - 2))
    if (part.starts_with("r")) how = part;
  if (to == "f16" && from == "f32" && how == "rn")
    return [](Thread& t, const Instruction& i) {
      t.put(i, 0, std::bit_cast<std::uint16_t>(Float16(t.number<float>(i, 1))));
    };
  if (to == "f32" && from == "f16")
    return [](Thread& t, const Instruction& i) {
      t.put(i, 0, static_cast<float>(std::bit_cast<Float16>(t.get<std::uint16_t>(i, 1))));
    };
  const auto halves = []<typename Half>(Type<Half>) -> Action {
    return [](Thread& t, const Instruction& i) {
      const auto bits = [&](std::size_t operand) {
        return std::uint32_t{std::bit_cast<std::uint16_t>(Half(t.number<float>(i, operand)))};
      };
      t.put(i, 0, bits(1) << 16 | bits(2));  // operand 1 is the upper half
    };
  };
  if (to == "bf16x2" && from == "f32" && how == "rn") return halves(Type<BFloat16>());
  if (to == "f16x2" && from == "f32" && how == "rn") return halves(Type<Float16>());
  if (saturates)
    return to == "f32" && from == "f32" ? [](Thread& t, const Instruction& i) {
      const auto x = t.number<float>(i, 1);
      t.put(i, 0, x > 0 ? std::min(x, 1.0f) : 0.0f);
    } : Action(nullptr);
  return with_type(from, [&](auto source) {
    using From = typename decltype(source)::type;
    return with_type(to, [&](auto target) -> Action {
      using To = typename decltype(target)::type;
      if constexpr (std::is_floating_point_v<From>) {
        if (how == "rzi")
          return [](Thread& t, const Instruction& i) {
            t.put(i, 0, rounded<To>(t.number<From>(i, 1), "rzi"));
          };
        if (how == "rni")
          return [](Thread& t, const Instruction& i) {
            t.put(i, 0, rounded<To>(t.number<From>(i, 1), "rni"));
          };
        if (how == "rmi")
          return [](Thread& t, const Instruction& i) {
            t.put(i, 0, rounded<To>(t.number<From>(i, 1), "rmi"));
          };
        if (how == "rpi")
          return [](Thread& t, const Instruction& i) {
            t.put(i, 0, rounded<To>(t.number<From>(i, 1), "rpi"));
          };
        if constexpr (std::is_integral_v<To>) return nullptr;
      }
      if (!how.empty() && how != "rn") return nullptr;
      return [](Thread& t, const Instruction& i) {
        t.put(i, 0, static_cast<To>(t.number<From>(i, 1)));
      };
    });
  });
}

}  // namespace

Action comparison_action(std::string_view name) {
  const std::vector<std::string_view> parts = parts_of(name);
  if (parts.size() < 3) return nullptr;
  if (parts.front() == "cvt") return conversion(parts);
  return parts.front() == "setp" && parts.size() == 3 ? comparison(parts[1], parts[2]) : nullptr;
}

}  // namespace ptx
