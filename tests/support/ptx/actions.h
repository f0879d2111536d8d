// Implementations of instructions by name, for single threads and for warps. nullptr: unknown name.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/support/ptx/thread.h"

namespace ptx {

using Action = void (*)(Thread&, const Instruction&);
using WarpAction = void (*)(Warp&, const Instruction&);

Action number_action(std::string_view name);
Action comparison_action(std::string_view name);  // and conversions
Action memory_action(std::string_view name);
WarpAction warp_action(std::string_view name);

// Splits a name at its dots.
std::vector<std::string_view> parts_of(std::string_view name);

template <typename T>
using Type = std::type_identity<T>;

// Returns f(Type<T>) for the PTX type `name` without its dot; nullptr: unknown type.
template <typename F>
Action with_integer(std::string_view name, const F& f) {
  if (name == "u8" || name == "b8") return f(Type<std::uint8_t>());
  if (name == "s8") return f(Type<std::int8_t>());
  if (name == "u16" || name == "b16") return f(Type<std::uint16_t>());
  if (name == "s16") return f(Type<std::int16_t>());
  if (name == "u32" || name == "b32") return f(Type<std::uint32_t>());
  if (name == "s32") return f(Type<std::int32_t>());
  if (name == "u64" || name == "b64") return f(Type<std::uint64_t>());
  if (name == "s64") return f(Type<std::int64_t>());
  return nullptr;
}
template <typename F>
Action with_real(std::string_view name, const F& f) {
  if (name == "f32") return f(Type<float>());
  if (name == "f64") return f(Type<double>());
  return nullptr;
}
template <typename F>
Action with_type(std::string_view name, const F& f) {
  const Action action = with_integer(name, f);
  return action != nullptr ? action : with_real(name, f);
}

}  // namespace ptx
