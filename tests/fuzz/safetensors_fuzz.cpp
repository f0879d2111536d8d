// Weights of third-party models: model.safetensors. After the last 0x1E, if any: the index of a
// directory of several files.
#include "framework/interop/weights_folder.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_weights(const std::filesystem::path& path) {
  const WeightsFolder weights(path);
  for (const std::string& name : weights.names()) {
    expect(weights.find(name) != nullptr, "a tensor is named and not there");
    is_read([&] { weights.read(name); });
  }
}

void read_folder(std::string_view bytes) {
  static const InputFolder folder;
  folder.remove(index_name);
  folder.put(single_file_name, bytes);
  is_read([&] { read_weights(folder.path()); });
  const std::size_t end = bytes.rfind('\x1e');
  if (end == std::string_view::npos) return;
  folder.remove(single_file_name);
  folder.put("model-00001-of-00001.safetensors", bytes.substr(0, end));
  folder.put(index_name, bytes.substr(end + 1));
  read_weights(folder.path());
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_folder);
}
