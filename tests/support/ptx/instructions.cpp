// Moves between registers, and control flow.
#include <algorithm>
#include <map>

#include "tests/support/ptx/actions.h"

namespace ptx {
namespace {

// Joins halves or quarters into one number, or splits it.
template <typename Part, typename Whole>
void pack(Thread& t, const Instruction& i) {
  Whole whole = 0;
  constexpr std::size_t count = sizeof(Whole) / sizeof(Part);
  for (std::size_t n = 0; n < count; ++n)
    whole |=
        static_cast<Whole>(static_cast<Whole>(t.get<Part>(i, n + 1)) << (8 * sizeof(Part) * n));
  t.put(i, 0, whole);
}
template <typename Part, typename Whole>
void unpack(Thread& t, const Instruction& i) {
  constexpr std::size_t count = sizeof(Whole) / sizeof(Part);
  const auto whole = t.get<Whole>(i, count);
  for (std::size_t n = 0; n < count; ++n)
    t.put(i, n, static_cast<Part>(whole >> (8 * sizeof(Part) * n)));
}

// `mov` of one register, or between a number and its parts. first_is_parts: the target has the
// parts.
Action move(std::string_view type, std::size_t operands, bool first_is_parts) {
  if (operands == 2)
    return with_type(type, [](auto t) -> Action {
      return [](Thread& thread, const Instruction& i) {
        using T = typename decltype(t)::type;
        // Moves bits, because the mark of an incomplete product is a special NaN.
        using Bits =
            std::conditional_t<sizeof(T) == 8,
                               std::uint64_t,
                               std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
        thread.put(i, 0, thread.get<Bits>(i, 1));
      };
    });
  if (type == "b32" && operands == 3)
    return first_is_parts ? unpack<std::uint16_t, std::uint32_t>
                          : pack<std::uint16_t, std::uint32_t>;
  if (type == "b64" && operands == 3)
    return first_is_parts ? unpack<std::uint32_t, std::uint64_t>
                          : pack<std::uint32_t, std::uint64_t>;
  if (type == "b64" && operands == 5)
    return first_is_parts ? unpack<std::uint16_t, std::uint64_t>
                          : pack<std::uint16_t, std::uint64_t>;
  return nullptr;
}

// Actions with a fixed name.
const std::map<std::string_view, Action>& named() {
  static const std::map<std::string_view, Action> actions = {
      {"bra", [](Thread& t, const Instruction& i) { t.next = t.code + i.offset; }},
      {"call", [](Thread& t, const Instruction& i) { t.call(i); }},
      {"ret", [](Thread& t, const Instruction&) { t.leave(); }},
      {"bar.sync",
       [](Thread& t, const Instruction& i) {
         if (t.get<std::uint32_t>(i, 0) != 0 || i.values.size() > 1)
           fail(t, "a barrier of some threads");
         t.state = State::meets_block;
         t.meeting = &i;
       }},
  };
  return actions;
}

Action action_of(const Instruction& instruction) {
  std::string_view name = instruction.name;
  if (name.ends_with(".uni")) name.remove_suffix(4);
  if (const auto found = named().find(name); found != named().end()) return found->second;
  if (name.starts_with("mov.") && !name.ends_with(".pred"))
    return move(name.substr(4), instruction.values.size(), instruction.parts_first);
  for (const auto action_of_name : {memory_action, comparison_action, number_action})
    if (const Action action = action_of_name(name); action != nullptr) return action;
  return nullptr;
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

bool choose_action(Instruction& instruction) {
  instruction.together = warp_action(instruction.name);
  if (instruction.together == nullptr) instruction.alone = action_of(instruction);
  return instruction.alone != nullptr || instruction.together != nullptr;
}

}  // namespace ptx
