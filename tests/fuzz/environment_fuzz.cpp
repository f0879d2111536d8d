// Environment files, and one episode of each.
#include "framework/environments/environment.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_environment(std::string_view text) {
  const Environment environment = parse_environment(text, "environment.txt");
  expect(!environment.actions.empty() && environment.steps > 0, "nothing can be done there");
  if (environment.steps > 1000) return;
  const Episode episode = environment.episode(Random(1));
  expect(std::ssize(episode.actions) <= environment.steps, "an episode takes too long");
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_environment);
}
