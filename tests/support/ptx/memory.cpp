// Memory and its spaces. Addresses of the host's memory are those of global and local memory too;
// those of shared memory and parameters count from where they begin.
#include <algorithm>
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
  if constexpr (space == Space::shared) return shared_place(t, address & 0xffffffff, bytes);
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
  const bool loads = parts[0] == "ld";
  const auto has = [&](std::string_view part) {
    return std::ranges::find(parts, part) != parts.end();
  };
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

template <typename T, Space space>
void atomic_add(Thread& t, const Instruction& i) {
  std::byte* const at = place<T, space>(t, i, 1, 1);
  T before;
  std::memcpy(&before, at, sizeof(T));
  const T after = static_cast<T>(before + t.get<T>(i, 2));
  std::memcpy(at, &after, sizeof(T));
  t.put(i, 0, before);
}

void begin_copy(Thread& t, const Instruction& i) {
  std::byte* const to = shared_place(t, t.get<std::uint32_t>(i, 0), 16);
  const auto from = t.get<std::uint64_t>(i, 1);
  if (from % 16 != 0) fail(t, "16 bytes that are not aligned");
  const auto real = i.values.size() > 3 ? t.get<std::uint32_t>(i, 3) : 16;
  std::memset(to, 0xff, 16);  // from now on it may be written: nobody reads it
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

// Between addresses of shared memory and those of all memory; others are the same.
void from_shared(Thread& t, const Instruction& i) {
  t.put(i, 0, t.get<std::uint64_t>(i, 1) + std::bit_cast<std::uint64_t>(t.shared.begin));
}
void to_shared(Thread& t, const Instruction& i) {
  t.put(i, 0, t.get<std::uint64_t>(i, 1) - std::bit_cast<std::uint64_t>(t.shared.begin));
}
void keep_address(Thread& t, const Instruction& i) { t.put(i, 0, t.get<std::uint64_t>(i, 1)); }

// Those of one name.
const std::map<std::string_view, Action>& named() {
  static const std::map<std::string_view, Action> actions = {
      {"membar.cta", [](Thread&, const Instruction&) {}},
      {"membar.gl", [](Thread&, const Instruction&) {}},
      {"cp.async.cg.shared.global", begin_copy},
      {"cp.async.commit_group", end_copy_group},
      {"cp.async.wait_group", wait_for_copies},
      {"fence.proxy.async.shared::cta",
       [](Thread& t, const Instruction&) { t.has_unshown_copies = false; }},
      {"cvta.to.shared.u64", to_shared},
      {"cvta.shared.u64", from_shared},
      {"cvta.to.global.u64", keep_address},
      {"cvta.global.u64", keep_address},
      {"cvta.to.local.u64", keep_address},
      {"cvta.local.u64", keep_address},
      {"atom.shared.add.u32", atomic_add<std::uint32_t, Space::shared>},
      {"atom.global.add.u32", atomic_add<std::uint32_t, Space::global>},
      {"atom.global.add.u64", atomic_add<std::uint64_t, Space::global>},
      {"atom.global.add.f32", atomic_add<float, Space::global>},
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
