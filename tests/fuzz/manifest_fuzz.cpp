// manifest.json of a checkpoint, and reports between ranks. Each text is also read with a valid
// hash, which random mutation would not produce.
#include "checkpoints/manifest.h"
#include "checkpoints/rank_file.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_manifest_text(const std::string& text) {
  const Manifest manifest = manifest_of_text(text, "manifest.json");
  pieces_by_file(manifest);
  const std::string written = manifest_text(manifest);
  const Manifest again = manifest_of_text(written, "manifest.json");
  expect(manifest_text(again) == written, "a manifest that was written reads back as another one");
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longspan;
  return fuzzing::fuzz(data, size, [](std::string_view bytes) {
    const std::string text(bytes);
    fuzzing::is_read([&] { fuzzing::read_manifest_text(text); });
    fuzzing::is_read([&] { fuzzing::read_manifest_text(with_manifest_hash(text)); });
    fuzzing::is_read([&] { RankFileReport::from_text(text, 1); });
  });
}
