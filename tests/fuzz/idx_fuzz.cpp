// Images in IDX. After 0x1E: a file of their labels.
#include <numeric>

#include "framework/data/examples/image_examples.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_examples(const ImageFiles& files) {
  const LabelSet labels = learn_image_labels(files, {});
  const auto examples = open_images(files, labels, {});
  std::vector<std::int64_t> rows(
      static_cast<std::size_t>(std::min<std::int64_t>(examples->size(), 8)));
  std::iota(rows.begin(), rows.end(), examples->size() - std::ssize(rows));
  examples->read({.examples = rows, .columns = examples->lengths(0)});
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  is_read([&] { read_images(folder.put("images", bytes), {}); });
  is_read([&] { read_examples({.images = folder.put("images", bytes)}); });
  const std::size_t end = bytes.rfind('\x1e');
  if (end == std::string_view::npos) return;
  read_examples({.images = folder.put("images", bytes.substr(0, end)),
                 .labels = folder.put("labels", bytes.substr(end + 1))});
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
