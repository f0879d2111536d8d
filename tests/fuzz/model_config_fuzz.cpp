// config.json of third-party models, optionally with generation_config.json and
// preprocessor_config.json, separated by 0x1E.
#include "framework/interop/architecture.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void put_or_remove(const InputFolder& folder, const char* name, std::string_view bytes) {
  if (bytes.empty())
    folder.remove(name);
  else
    folder.put(name, bytes);
}

void read_model(std::string_view bytes) {
  static const InputFolder folder;
  const std::string path = folder.put("config.json", take_part(bytes));
  put_or_remove(folder, generation_config_name, take_part(bytes));
  put_or_remove(folder, pixels_config_name, take_part(bytes));
  const ModelConfig config(path);
  is_read([&] { config.special_tokens(); });
  is_read([&] { unsupported_generation_settings(config); });
  const Architecture& architecture = architecture_of(config);
  ImportedConfig meaning = architecture.read(config);
  const StoredTensor stored = {.dtype = "F32", .shape = {3}};
  if (architecture.resolve)
    architecture.resolve([&](const std::string&) { return &stored; }, meaning);
  expect(!meaning.settings.empty(), "a model without settings is taken");
  for (const auto& [key, value] : meaning.settings)
    expect(!key.empty() && value.size() < (std::size_t{1} << 20), "a setting without a bound");
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_model);
}
