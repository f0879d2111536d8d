// Configuration files: parsed, checked, written again.
#include "launch/cli/yaml.h"
#include "tests/fuzz/every_option.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

// The resolved configuration must read back equal.
void expect_same_when_read_back(EveryOption& options) {
  EveryOption again;
  const ParsedYaml written = read_yaml(options.table().resolved(), "config.yaml");
  expect(written.complaints.empty() && written.whole,
         "a configuration that was written is refused");
  again.table().assign(written.assignments);
  expect(again.table().diagnostics().empty(), "a value that was written is refused");
  expect(again.values() == options.values(), "a value that was written reads back as another one");
}

void read_file(std::string_view text) {
  EveryOption options;
  const ParsedYaml keys = read_yaml(text, "config.yaml");
  options.table().assign(keys.assignments);
  for (const Diagnostic& diagnostic : keys.complaints) options.table().add_diagnostic(diagnostic);
  options.table().reference();
  options.table().finish();
  options.table().warnings();
  expect_same_when_read_back(options);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
