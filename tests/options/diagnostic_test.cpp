#include "framework/options/diagnostic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/options/options.h"

namespace longspan::diagnostic_test {
namespace {

std::string refusal(std::vector<Diagnostic> complaints) {
  try {
    throw_if_any(std::move(complaints));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

std::vector<Diagnostic> of_lines(int count) {
  std::vector<Diagnostic> complaints;
  for (int line = count; line > 0; --line)
    complaints.push_back({{"a.yaml", line, 1}, fmt::format("mistake {}", line)});
  return complaints;
}

TEST(Complaints, TheFirstTwentyOfTheFileAreToldAndHowManyMoreThereAre) {
  const std::string twenty = refusal(of_lines(20));
  EXPECT_TRUE(twenty.starts_with("a.yaml:1:1: mistake 1\na.yaml:2:1: mistake 2\n"));
  EXPECT_TRUE(twenty.ends_with("\na.yaml:20:1: mistake 20"));
  EXPECT_EQ(refusal(of_lines(21)), twenty + "\nand 1 more error");
  EXPECT_EQ(refusal(of_lines(20000)), twenty + "\nand 19980 more errors");
  EXPECT_EQ(refusal({}), "");
}

TEST(Complaints, TheUnknownKeysThatAreToldHaveTheirSuggestion) {
  std::int64_t steps = 1;
  OptionTable table;
  table.add("training.max_steps", steps, "steps");
  std::vector<Assignment> assignments;
  for (int line = 1; line <= 40; ++line)
    assignments.push_back({fmt::format("training.max_step{:02}", line),
                           Assignment::Kind::scalar,
                           {{"1"}},
                           {"a", line, 1}});
  table.assign(assignments);
  const std::string told = refusal(table.diagnostics());
  EXPECT_TRUE(
      told.ends_with("\n"
                     "a:20:1: training.max_step20: unknown key; did you mean "
                     "\"training.max_steps\"?\n"
                     "and 20 more errors"))
      << told;
}

}  // namespace
}  // namespace longspan::diagnostic_test
