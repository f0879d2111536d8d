// Replays the corpus. Each input once covered a new path of a parser, or was a finding.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz_targets.h"  // made by CMakeLists.txt

namespace longspan::fuzzing {
namespace {

class Replay : public ::testing::TestWithParam<FuzzTarget> {};

std::vector<std::filesystem::path> corpus_inputs(const char* name) {
  std::vector<std::filesystem::path> inputs;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(corpus_folder) / name))
    inputs.push_back(entry.path());
  std::ranges::sort(inputs);
  return inputs;
}

TEST_P(Replay, ReadsOrRejectsEachCorpusInput) {
  const auto inputs = corpus_inputs(GetParam().name);
  ASSERT_FALSE(inputs.empty()) << "nothing is kept for " << GetParam().name;
  for (const auto& input : inputs) {
    SCOPED_TRACE(input.string());
    std::ifstream file(input, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::cout << input.filename().string() << std::endl;  // a finding ends the process
    EXPECT_EQ(GetParam().run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Parsers, Replay, ::testing::ValuesIn(fuzz_targets), [](const auto& each) {
  return std::string(each.param.name);
});

}  // namespace
}  // namespace longspan::fuzzing
