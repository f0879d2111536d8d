// Memory and its spaces. Global and local addresses are addresses of the host. Addresses of shared
// memory and parameters are offsets.
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "tests/support/ptx/actions.h"

namespace ptx {
namespace {

enum class Space { generic, global, shared, local, parameter };

template <typename T, Space space>
std::byte* place(Thread& t, const Instruction& i, std::size_t operand, std::size_t count) {
  const std::uint64_t address =
      t.get<std::uint64_t>(i, operand) + static_cast<std::uint64_t>(i.offset);
  const std::size_t bytes = count * sizeof(T);
  if constexpr (space == Space::shared) return shared_place(t, i, address & 0xffffffff, bytes);
  std::byte* pointer = nullptr;
  if constexpr (space == Space::parameter) {
    auto& parameters = t.frame().parameters;
    if (address + bytes > parameters.size()) fail(t, "beyond the parameters");
    pointer = parameters.data() + address;
  } else {
    pointer = std::bit_cast<std::byte*>(address);
    if (address % bytes != 0) fail(t, "memory that is not aligned");
  }
  return pointer;
}

template <typename T, Space space, std::size_t count>
void load(Thread& t, const Instruction& i) {
  const std::byte* const from = place<T, space>(t, i, count, count);
  for (std::size_t n = 0; n < count; ++n) {
    T value;
    std::memcpy(&value, from + n * sizeof(T), sizeof(T));
    t.put(i, n, value);
  }
}
template <typename T, Space space, std::size_t count>
void store(Thread& t, const Instruction& i) {
  std::byte* const to = place<T, space>(t, i, 0, count);
  for (std::size_t n = 0; n < count; ++n) {
    const T value = t.get<T>(i, n + 1);
    std::memcpy(to + n * sizeof(T), &value, sizeof(T));
  }
}

Action access(const std::vector<std::string_view>& parts) {
  static constexpr std::array<std::string_view, 9> known = {
      "global", "const", "shared", "local", "param", "nc", "volatile", "v2", "v4"};
  const bool loads = parts[0] == "ld";
  const auto has = [&](std::string_view part) {
    return std::ranges::find(parts, part) != parts.end();
  };
  for (std::size_t p = 1; p + 1 < parts.size(); ++p)
    if (std::ranges::find(known, parts[p]) == known.end()) return nullptr;
  return with_type(parts.back(), [&](auto t) -> Action {
    using T = typename decltype(t)::type;
    const auto by_space = [&]<std::size_t count>() -> Action {
      if (has("global") || has("const"))
        return loads ? load<T, Space::global, count> : store<T, Space::global, count>;
      if (has("shared"))
        return loads ? load<T, Space::shared, count> : store<T, Space::shared, count>;
      if (has("local")) return loads ? load<T, Space::local, count> : store<T, Space::local, count>;
      if (has("param"))
        return loads ? load<T, Space::parameter, count> : store<T, Space::parameter, count>;
      return loads ? load<T, Space::generic, count> : store<T, Space::generic, count>;
    };
    if (has("v2")) return by_space.template operator()<2>();
    if (has("v4")) return by_space.template operator()<4>();
    return by_space.template operator()<1>();
  });
}

void start_copy(Thread& t, const Instruction& i) {
  std::byte* const to = shared_place(t, i, t.get<std::uint32_t>(i, 0), 16);
  const auto from = t.get<std::uint64_t>(i, 1);
  if (from % 16 != 0) fail(t, "16 bytes that are not aligned");
  const auto real = i.values.size() > 3 ? t.get<std::uint32_t>(i, 3) : 16;
  if (t.get<std::uint32_t>(i, 2) != 16 || real > 16 || i.offset != 0) fail(t, "unknown operands");
  std::memset(to, 0xff, 16);  // NaN until the copy arrives
  t.copies.push_back({to, std::bit_cast<const std::byte*>(from), real});
}
void end_copy_group(Thread& t, const Instruction&) {
  t.copy_groups.push_back(std::move(t.copies));
  t.copies.clear();
}
void wait_for_copies(Thread& t, const Instruction& i) {
  while (t.copy_groups.size() > t.get<std::uint32_t>(i, 0)) {
    for (const Copy& copy : t.copy_groups.front()) {
      std::memset(copy.to, 0, 16);
      std::memcpy(copy.to, copy.from, copy.bytes);
      t.has_unshown_copies = true;
    }
    t.copy_groups.pop_front();
  }
}

// Shared to generic addresses. Global addresses are equal to generic ones.
void from_shared(Thread& t, const Instruction& i) {
  t.put(i, 0, t.get<std::uint64_t>(i, 1) + std::bit_cast<std::uint64_t>(t.shared.begin));
}
void keep_address(Thread& t, const Instruction& i) { t.put(i, 0, t.get<std::uint64_t>(i, 1)); }

// Actions with a fixed name.
const std::map<std::string_view, Action>& named() {
  static const std::map<std::string_view, Action> actions = {
      {"cp.async.cg.shared.global", start_copy},
      {"cp.async.commit_group", end_copy_group},
      {"cp.async.wait_group", wait_for_copies},
      {"fence.proxy.async.shared::cta",
       [](Thread& t, const Instruction&) { t.has_unshown_copies = false; }},
      {"cvta.shared.u64", from_shared},
      {"cvta.to.global.u64", keep_address},
  };
  return actions;
}

}  // namespace

Action memory_action(std::string_view name) {
  if (const auto found = named().find(name); found != named().end()) return found->second;
  const std::vector<std::string_view> parts = parts_of(name);
  return parts.front() == "ld" || parts.front() == "st" ? access(parts) : nullptr;
}

}  // namespace ptx
