// Values of --set, separated by 0x1E.
#include "launch/cli/yaml.h"
#include "tests/fuzz/every_option.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_settings(std::string_view text) {
  EveryOption options;
  while (!text.empty()) {
    const ParsedYaml keys = read_setting(take_part(text));
    expect(!keys.assignments.empty() || !keys.complaints.empty(), "a setting goes without a word");
    options.table().assign(keys.assignments);
    for (const Diagnostic& diagnostic : keys.complaints) options.table().add_diagnostic(diagnostic);
  }
  options.table().finish();
  options.values();
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_settings);
}
