// Reads the view through h5py.
#include <cstdlib>

#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing::view_test {
namespace {

// Returns the first interpreter that has h5py; the one in PATH may lack it.
std::string python_with_h5py() {
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (std::system((python + " -c 'import h5py' 2>/dev/null").c_str()) == 0) return python;
  return "";
}

TEST(View, ShowsFullTensorsInH5py) {
  const std::string python = python_with_h5py();
  if (python.empty()) GTEST_SKIP() << "no python3 has h5py here";
  const TemporaryDirectory directory;
  const TrainingState state = small_state();
  const auto path = save_as_ranks(directory.path(), 3, divided(state, 3));
  const auto raw = directory.path() / "raw";
  std::filesystem::create_directory(raw);
  for (const StateTensor& tensor : state.tensors) {
    std::string name = tensor.name;
    std::ranges::replace(name, '/', '+');
    write_bytes(raw / name, bytes_of(tensor.tensor));
  }
  write_bytes(directory.path() / "compare.py", R"(import sys, os, h5py
view, raw = h5py.File(sys.argv[1] + "/view.h5", "r"), sys.argv[2]
assert view.attrs["step"] == "3" or view.attrs["step"] == b"3", view.attrs["step"]
names = set()
view.visititems(lambda name, item: names.add(name) if isinstance(item, h5py.Dataset) else None)
files = {file.replace("+", "/") for file in os.listdir(raw)}
assert names == files - {"mems/1"}, names  # it has no elements
for name in names:
    wanted = open(os.path.join(raw, name.replace("/", "+")), "rb").read()
    assert view[name][...].tobytes() == wanted, name
assert view["layers/0/attention/query/weight"].shape == (24, 10)
assert view["layers/0/attention/query/weight"].dtype == "<f4"
dtype = view["layers/1/attention/query/weight"].attrs["dtype"]
assert dtype == "bf16" or dtype == b"bf16", dtype
)");
  // Runs outside the checkpoint's directory.
  const std::string command = fmt::format("cd / && {} '{}' '{}' '{}'",
                                          python,
                                          (directory.path() / "compare.py").string(),
                                          path.string(),
                                          raw.string());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace longspan::testing::view_test
