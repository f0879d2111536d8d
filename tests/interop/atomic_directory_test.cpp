// Directories that appear complete or not at all, and cleanup after killed processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "framework/interop/weights_folder.h"
#include "tests/support/temporary_directory.h"

namespace longspan::atomic_directory_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

using Names = std::vector<std::string>;

TEST(AtomicDirectory, RemovesLeftoversFromKilledProcesses) {
  const testing::TemporaryDirectory place;
  const fs::path path = place.path() / "model";
  for (const char* const name : {"model.tmp-1", "model.tmp-mine", "model2.tmp-1"}) {
    fs::create_directories(place.path() / name);
    std::ofstream(place.path() / name / "weights") << "w";
  }
  std::ofstream(place.path() / "model.lock-1") << "";
  {
    AtomicDirectory first(path, "--output-dir");
    // Live processes keep their directories.
    AtomicDirectory second(path, "--output-dir");
    EXPECT_TRUE(fs::exists(first.inside()));
    EXPECT_FALSE(fs::exists(place.path() / "model.tmp-1"));
    std::ofstream(second.inside() / "weights") << "w";
    second.finish();
  }
  // Other names do not match the pattern of temporary directories.
  EXPECT_EQ(names_in(place.path()), (Names{"model", "model.tmp-mine", "model2.tmp-1"}));
  EXPECT_EQ(names_in(path), Names{"weights"});
}

}  // namespace
}  // namespace longspan::atomic_directory_test
