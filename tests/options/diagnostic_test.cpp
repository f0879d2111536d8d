#include "framework/options/diagnostic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/options/options.h"

namespace longspan::diagnostic_test {
namespace {

std::string refusal(std::vector<Diagnostic> errors) {
  try {
    throw_if_any(std::move(errors));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

std::vector<Diagnostic> of_lines(int count) {
  std::vector<Diagnostic> errors;
  for (int line = count; line > 0; --line)
    errors.push_back({{"a.yaml", line, 1}, fmt::format("mistake {}", line)});
  return errors;
}

TEST(Diagnostics, ReportsFirstFiftyAndCountsTheRest) {
  const std::string fifty = refusal(of_lines(50));
  EXPECT_TRUE(fifty.starts_with("a.yaml:1:1: mistake 1\na.yaml:2:1: mistake 2\n"));
  EXPECT_TRUE(fifty.ends_with("\na.yaml:50:1: mistake 50"));
  EXPECT_EQ(refusal(of_lines(51)), fifty + "\nand 1 more error");
  EXPECT_EQ(refusal(of_lines(20000)), fifty + "\nand 19950 more errors");
  EXPECT_EQ(refusal({}), "");
}

TEST(Diagnostics, SuggestsKeysForReportedUnknownKeys) {
  std::int64_t steps = 1;
  OptionTable table;
  table.add("training.max_steps", steps, "steps");
  std::vector<Assignment> assignments;
  for (int line = 1; line <= 70; ++line)
    assignments.push_back({fmt::format("training.max_step{:02}", line),
                           Assignment::Kind::scalar,
                           {{"1"}},
                           {"a", line, 1}});
  table.assign(assignments);
  const std::string reported = refusal(table.diagnostics());
  EXPECT_TRUE(
      reported.ends_with("\n"
                         "a:50:1: training.max_step50: unknown key; did you mean "
                         "\"training.max_steps\"?\n"
                         "and 20 more errors"))
      << reported;
}

}  // namespace
}  // namespace longspan::diagnostic_test
