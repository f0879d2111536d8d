#include "framework/data/atomic_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace longspan::atomic_file_test {
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

TEST(AtomicFile, RemovesLeftoversFromKilledWriters) {
  const testing::TemporaryDirectory directory;
  const fs::path path = directory.path() / "a.tokens";
  for (const char* const name :
       {"a.tokens.tmp-0123abcd-17", "a.tokens.tmp-mine", "b.tokens.tmp-0123abcd-17"})
    std::ofstream(directory.path() / name) << "t";
  {
    AtomicFile first(path);
    AtomicFile second(path);
    EXPECT_EQ(names_in(directory.path()).size(), 4U);
    first.write(std::string_view("text"));
    first.finish();
  }
  EXPECT_EQ(names_in(directory.path()),
            (Names{"a.tokens", "a.tokens.tmp-mine", "b.tokens.tmp-0123abcd-17"}));
}

}  // namespace
}  // namespace longspan::atomic_file_test
