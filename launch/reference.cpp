#include "launch/reference.h"

#include <algorithm>

namespace longspan {
namespace {

constexpr const char* family_key = "model.family";

bool same(const OptionDescription& a, const OptionDescription& b) {
  return a.key == b.key && a.type == b.type && a.allowed == b.allowed && a.standard == b.standard &&
         a.documentation == b.documentation;
}

}  // namespace

std::vector<OptionDescription> configuration_reference() {
  Configuration shared;
  declare_all(shared, nullptr);
  std::vector<OptionDescription> all = shared.table.reference();

  // A key that several families describe alike stands once; each says whose it is unless all do.
  struct FamilyKey {
    OptionDescription option;
    std::vector<std::string> families;
  };
  std::vector<FamilyKey> keys;
  for (const Family& family : families()) {
    OptionTable table;
    const ModelFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      const auto known = std::find_if(
          keys.begin(), keys.end(), [&](const FamilyKey& key) { return same(key.option, option); });
      if (known == keys.end()) {
        keys.push_back({option, {family.name}});
      } else {
        known->families.push_back(family.name);
      }
    }
  }
  auto place = std::find_if(all.begin(), all.end(), [](const OptionDescription& option) {
    return option.key == family_key;
  });
  for (FamilyKey& key : keys) {
    if (key.families.size() < families().size()) {
      key.option.documentation =
          fmt::format("{} (family {})", key.option.documentation, fmt::join(key.families, ", "));
    }
    place = all.insert(place + 1, std::move(key.option));
  }
  return all;
}

}  // namespace longspan
