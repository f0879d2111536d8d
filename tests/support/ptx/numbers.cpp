// Arithmetic: integers that wrap, floating-point numbers that round, bits.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <map>

#include "tests/support/ptx/actions.h"

namespace ptx {
namespace {

// A type without undefined overflow.
template <typename T>
using Wrapping =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, Type<T>>::type;

template <typename T, auto f>
void unary(Thread& t, const Instruction& i) {
  t.put<T>(i, 0, static_cast<T>(f(t.number<T>(i, 1))));
}
template <typename T, auto f>
void binary(Thread& t, const Instruction& i) {
  t.put<T>(i, 0, static_cast<T>(f(t.number<T>(i, 1), t.number<T>(i, 2))));
}

// Functions of numbers, for the types that support them.
constexpr auto add = []<typename T>(T a, T b) {
  return static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b);
};
constexpr auto subtract = []<typename T>(T a, T b) {
  return static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b);
};
constexpr auto multiply = []<typename T>(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
  else
    return a * b;
};
constexpr auto multiply_high = []<typename T>(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
};
// Integer division by 0 is unspecified on a GPU.
constexpr auto divide = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(-static_cast<Wrapping<T>>(a));
  }
  return static_cast<T>(a / b);
};
constexpr auto remainder_of = []<typename T>(T a, T b) -> T {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
};
// fmin and fmax ignore NaN.
constexpr auto least = []<typename T>(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return std::min(a, b);
  else
    return std::fmin(a, b);
};
constexpr auto most = []<typename T>(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return std::max(a, b);
  else
    return std::fmax(a, b);
};
constexpr auto conjunction = []<typename T>(T a, T b) { return a & b; };
constexpr auto disjunction = []<typename T>(T a, T b) { return a | b; };
constexpr auto difference = []<typename T>(T a, T b) { return a ^ b; };
constexpr auto complement = []<typename T>(T a) { return ~a; };
constexpr auto negate = []<typename T>(T a) { return -static_cast<Wrapping<T>>(a); };
constexpr auto magnitude = []<typename T>(T a) {
  if constexpr (std::is_integral_v<T>)
    return a < 0 ? -static_cast<Wrapping<T>>(a) : static_cast<Wrapping<T>>(a);
  else
    return std::fabs(a);
};
constexpr auto root = []<typename T>(T a) { return std::sqrt(a); };
constexpr auto reciprocal = []<typename T>(T a) { return T(1) / a; };
// Returns b with the sign of a.
constexpr auto signed_as = []<typename T>(T a, T b) { return std::copysign(b, a); };
constexpr auto exponential = [](float a) { return std::exp2(a); };
// Flushes subnormal results to 0 (ftz).
constexpr auto power_of_two = [](float a) {
  const float power = std::exp2(a);
  return std::fpclassify(power) == FP_SUBNORMAL ? 0 : power;
};

constexpr auto flushed_reciprocal = [](float a) {
  const auto flushed = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  return flushed(1 / flushed(a));
};

Action arithmetic(std::string_view name, std::string_view type) {
  const auto numbers = [&]<auto f>() {
    return with_type(type, [](auto t) -> Action { return binary<typename decltype(t)::type, f>; });
  };
  const auto integers = [&]<auto f>() {
    return with_integer(type,
                        [](auto t) -> Action { return binary<typename decltype(t)::type, f>; });
  };
  const auto reals = [&]<auto f>() {
    return with_real(type, [](auto t) -> Action { return unary<typename decltype(t)::type, f>; });
  };
  if (name == "add") return numbers.template operator()<add>();
  if (name == "sub") return numbers.template operator()<subtract>();
  if (name == "mul") return numbers.template operator()<multiply>();
  if (name == "mul.hi") return integers.template operator()<multiply_high>();
  if (name == "div") return numbers.template operator()<divide>();
  if (name == "rem") return integers.template operator()<remainder_of>();
  if (name == "min") return numbers.template operator()<least>();
  if (name == "max") return numbers.template operator()<most>();
  if (name == "and") return integers.template operator()<conjunction>();
  if (name == "or") return integers.template operator()<disjunction>();
  if (name == "xor") return integers.template operator()<difference>();
  if (name == "not")
    return with_integer(
        type, [](auto t) -> Action { return unary<typename decltype(t)::type, complement>; });
  if (name == "neg")
    return with_type(type,
                     [](auto t) -> Action { return unary<typename decltype(t)::type, negate>; });
  if (name == "abs")
    return with_type(type,
                     [](auto t) -> Action { return unary<typename decltype(t)::type, magnitude>; });
  if (name == "copysign")
    return with_real(
        type, [](auto t) -> Action { return binary<typename decltype(t)::type, signed_as>; });
  if (name == "sqrt") return reals.template operator()<root>();
  if (name == "rcp") return reals.template operator()<reciprocal>();
  return nullptr;
}

// Instructions on predicates.
Action logic(std::string_view name) {
  if (name == "and")
    return
        [](Thread& t, const Instruction& i) { t.put(i, 0, t.get_bool(i, 1) && t.get_bool(i, 2)); };
  if (name == "or")
    return
        [](Thread& t, const Instruction& i) { t.put(i, 0, t.get_bool(i, 1) || t.get_bool(i, 2)); };
  if (name == "xor")
    return
        [](Thread& t, const Instruction& i) { t.put(i, 0, t.get_bool(i, 1) != t.get_bool(i, 2)); };
  if (name == "not") return [](Thread& t, const Instruction& i) { t.put(i, 0, !t.get_bool(i, 1)); };
  if (name == "mov") return [](Thread& t, const Instruction& i) { t.put(i, 0, t.get_bool(i, 1)); };
  return nullptr;
}

Action shift(std::string_view name, std::string_view type) {
  return with_integer(type, [&](auto t) -> Action {
    using T = typename decltype(t)::type;
    constexpr unsigned bits = 8 * sizeof(T);
    if (name == "shl")
      return [](Thread& thread, const Instruction& i) {
        const auto by = thread.get<std::uint32_t>(i, 2);
        const auto value = static_cast<std::uint64_t>(thread.get<T>(i, 1));
        thread.put<T>(i, 0, static_cast<T>(by < bits ? value << by : 0));
      };
    return [](Thread& thread, const Instruction& i) {
      const auto by = thread.get<std::uint32_t>(i, 2);
      const T value = thread.get<T>(i, 1);
      thread.put<T>(i, 0, static_cast<T>(by < bits ? value >> by : value < 0 ? -1 : 0));
    };
  });
}

// Addition and subtraction with carry.
template <bool subtracts, bool reads, bool writes>
void add_with_carry(Thread& t, const Instruction& i) {
  const std::uint64_t a = t.get<std::uint32_t>(i, 1), b = t.get<std::uint32_t>(i, 2);
  const std::uint64_t carry = reads && t.carry ? 1 : 0;
  const std::uint64_t sum = subtracts ? a - b - carry : a + b + carry;
  t.put(i, 0, static_cast<std::uint32_t>(sum));
  if (writes) t.carry = (sum >> 32 & 1) != 0;
}
template <bool high, bool reads, bool writes>
void multiply_add_with_carry(Thread& t, const Instruction& i) {
  const std::uint64_t product =
      std::uint64_t{t.get<std::uint32_t>(i, 1)} * t.get<std::uint32_t>(i, 2);
  const std::uint64_t sum = (high ? product >> 32 : product & 0xffffffff) +
                            t.get<std::uint32_t>(i, 3) + (reads && t.carry ? 1 : 0);
  t.put(i, 0, static_cast<std::uint32_t>(sum));
  if (writes) t.carry = sum >> 32 != 0;
}

// Sets the rounding mode for its lifetime.
class Rounding {
 public:
  explicit Rounding(int way) : before_(std::fegetround()) { std::fesetround(way); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;
  ~Rounding() { std::fesetround(before_); }

 private:
  int before_;
};
template <typename T, int way>
void rounded_sum(Thread& t, const Instruction& i) {
  const Rounding rounding(way);
  const volatile T a = t.number<T>(i, 1), b = t.number<T>(i, 2);
  const volatile T sum = a + b;
  t.put<T>(i, 0, sum);
}
template <typename T, int way>
void rounded_multiply_add(Thread& t, const Instruction& i) {
  const Rounding rounding(way);
  const volatile T a = t.number<T>(i, 1), b = t.number<T>(i, 2), c = t.number<T>(i, 3);
  const volatile T sum = std::fma(a, b, c);
  t.put<T>(i, 0, sum);
}

template <typename T>
void multiply_add(Thread& t, const Instruction& i) {
  const T a = t.number<T>(i, 1), b = t.number<T>(i, 2), c = t.number<T>(i, 3);
  if constexpr (std::is_integral_v<T>)
    t.put<T>(i,
             0,
             static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) +
                            static_cast<std::uint64_t>(c)));
  else
    t.put<T>(i, 0, std::fma(a, b, c));
}
// A product with twice the bits, optionally added to a sum.
template <typename Narrow, typename Wide, bool adds>
void wide_product(Thread& t, const Instruction& i) {
  using Bits = std::make_unsigned_t<Wide>;
  const auto product = static_cast<Bits>(Wide{t.get<Narrow>(i, 1)} * Wide{t.get<Narrow>(i, 2)});
  t.put(i, 0, static_cast<Wide>(product + (adds ? t.get<Bits>(i, 3) : 0)));
}
template <bool adds>
Action wide(std::string_view type) {
  if (type == "u16") return wide_product<std::uint16_t, std::uint32_t, adds>;
  if (type == "s16") return wide_product<std::int16_t, std::int32_t, adds>;
  if (type == "u32") return wide_product<std::uint32_t, std::uint64_t, adds>;
  if (type == "s32") return wide_product<std::int32_t, std::int64_t, adds>;
  return nullptr;
}

template <typename T>
void select(Thread& t, const Instruction& i) {
  t.put<T>(i, 0, t.get_bool(i, 3) ? t.get<T>(i, 1) : t.get<T>(i, 2));
}

// Replaces a bit field of one number by the lowest bits of another.
template <typename T>
void insert_field(Thread& t, const Instruction& i) {
  constexpr std::uint32_t bits = 8 * sizeof(T);
  const auto begin = std::min(t.get<std::uint32_t>(i, 3) & 0xff, bits),
             count = std::min(t.get<std::uint32_t>(i, 4) & 0xff, bits);
  const T ones = count == bits ? ~T{0} : static_cast<T>((T{1} << count) - 1);
  const T mask = begin == bits ? T{0} : static_cast<T>(ones << begin);
  const T field = begin == bits ? T{0} : static_cast<T>(t.get<T>(i, 1) << begin);
  t.put(i, 0, static_cast<T>((t.get<T>(i, 2) & ~mask) | (field & mask)));
}

void permute_bytes(Thread& t, const Instruction& i) {
  const std::uint64_t bytes =
      std::uint64_t{t.get<std::uint32_t>(i, 2)} << 32 | t.get<std::uint32_t>(i, 1);
  const auto choice = t.get<std::uint32_t>(i, 3);
  std::uint32_t result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const std::uint32_t which = choice >> (4 * n) & 0xf;
    auto byte = static_cast<std::uint32_t>(bytes >> (8 * (which & 7)) & 0xff);
    if ((which & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * n);
  }
  t.put(i, 0, result);
}

template <typename T, auto f>
void count_bits(Thread& t, const Instruction& i) {
  t.put(i, 0, static_cast<std::uint32_t>(f(t.get<T>(i, 1))));
}
constexpr auto zeros_before = [](auto bits) { return std::countl_zero(bits); };

// Actions with a fixed name.
const std::map<std::string_view, Action>& named() {
  static const std::map<std::string_view, Action> actions = {
      {"add.rz.f32", rounded_sum<float, FE_TOWARDZERO>},
      {"fma.rm.f32", rounded_multiply_add<float, FE_DOWNWARD>},
      {"add.cc.u32", add_with_carry<false, false, true>},
      {"addc.cc.u32", add_with_carry<false, true, true>},
      {"addc.u32", add_with_carry<false, true, false>},
      {"sub.cc.u32", add_with_carry<true, false, true>},
      {"subc.cc.u32", add_with_carry<true, true, true>},
      {"subc.u32", add_with_carry<true, true, false>},
      {"mad.lo.cc.u32", multiply_add_with_carry<false, false, true>},
      {"madc.lo.cc.u32", multiply_add_with_carry<false, true, true>},
      {"madc.hi.cc.u32", multiply_add_with_carry<true, true, true>},
      {"madc.hi.u32", multiply_add_with_carry<true, true, false>},
      {"ex2.approx.f32", unary<float, exponential>},
      {"ex2.approx.ftz.f32", unary<float, power_of_two>},
      {"rcp.approx.ftz.f32", unary<float, flushed_reciprocal>},
      {"prmt.b32", permute_bytes},
      {"clz.b32", count_bits<std::uint32_t, zeros_before>},
      {"clz.b64", count_bits<std::uint64_t, zeros_before>},
      {"bfi.b32", insert_field<std::uint32_t>},
      {"bfi.b64", insert_field<std::uint64_t>},
      {"shf.l.wrap.b32",
       [](Thread& t, const Instruction& i) {
         const auto both =
             std::uint64_t{t.get<std::uint32_t>(i, 2)} << 32 | t.get<std::uint32_t>(i, 1);
         t.put(i, 0, static_cast<std::uint32_t>(both << (t.get<std::uint32_t>(i, 3) & 31) >> 32));
       }},
      // The device library requires only the upper word of a reciprocal.
      {"rcp.approx.ftz.f64",
       [](Thread& t, const Instruction& i) {
         const auto bits = std::bit_cast<std::uint64_t>(1 / t.get<double>(i, 1));
         t.put(i, 0, bits & ~std::uint64_t{0xffffffff});
       }},
  };
  return actions;
}

}  // namespace

Action number_action(std::string_view name) {
  if (const auto found = named().find(name); found != named().end()) return found->second;
  const std::vector<std::string_view> parts = parts_of(name);
  const std::string_view first = parts.front(), type = parts.back();
  if (parts.size() > 3) return nullptr;
  if (type == "pred") return logic(first);
  if (first == "shl" || first == "shr") return shift(first, type);
  if (first == "selp")
    return with_type(type, [](auto t) -> Action { return select<typename decltype(t)::type>; });
  // Rounding mode, or part of a product.
  const std::string_view how = parts.size() < 3 ? "" : parts[1];
  const bool is_usual = how.empty() || how == "rn" || how == "approx";
  if (first == "fma" || first == "mad") {
    if (how == "wide") return wide<true>(type);
    if (how != (first == "fma" ? "rn" : "lo")) return nullptr;
    return with_type(type,
                     [](auto t) -> Action { return multiply_add<typename decltype(t)::type>; });
  }
  if (first == "mul" && how == "wide") return wide<false>(type);
  if (first == "mul" && how == "hi") return arithmetic("mul.hi", type);
  return is_usual || (first == "mul" && how == "lo") ? arithmetic(first, type) : nullptr;
}

}  // namespace ptx
