#include "framework/options/condition.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/options/options.h"

namespace longspan::condition_test {
namespace {

struct Values {
  std::string format = "text";
  std::string task = "tagging";
  std::string sampling = "none";
  std::int64_t port = 0;
  double smoothing = 0;
  std::optional<std::int64_t> rank = std::nullopt;
  bool tied = true;
  std::vector<std::string> layers = {"full"};
  std::int64_t dependent = 0;
};

// Declares the keys above, the last with rules.
template <typename... Rules>
OptionTable table_of(Values& values, const Rules&... rules) {
  OptionTable table;
  table.add("a.dependent", values.dependent, "what depends", rules...);
  table.add("a.format", values.format, "");
  table.add("a.task", values.task, "");
  table.add("a.sampling", values.sampling, "");
  table.add("b.port", values.port, "");
  table.add("b.smoothing", values.smoothing, "");
  table.add("b.rank", values.rank, "");
  table.add("b.tied", values.tied, "");
  table.add("b.layers", values.layers, "");
  return table;
}

using Settings = std::vector<std::pair<std::string, std::vector<ListItem>>>;

void assign(OptionTable& table, const Settings& settings) {
  std::vector<Assignment> assignments;
  for (const auto& [key, words] : settings) {
    const auto kind = words.size() == 1 ? Assignment::Kind::scalar : Assignment::Kind::list;
    assignments.push_back(
        {key, kind, words, {"c.yaml", static_cast<int>(assignments.size()) + 1, 1}});
  }
  table.assign(assignments);
}

template <typename... Rules>
std::string reported(const Settings& settings, const Rules&... rules) {
  Values values;
  OptionTable table = table_of(values, rules...);
  assign(table, settings);
  std::string text;
  for (const Diagnostic& each : table.diagnostics()) text += each.message + "\n";
  if (text.empty())
    for (const std::string& line : table.warnings()) text += line + "\n";
  return text;
}

const std::pair<std::string, std::vector<ListItem>> given = {"a.dependent", {ListItem("3")}};

TEST(Condition, IgnoresAKeyUnlessItIsMet) {
  const Constraint rule = only_with(is("a.task", {"translation", "parsing"}));
  EXPECT_EQ(reported({given}, rule), "c.yaml:1:1: a.dependent is ignored: a.task is tagging\n");
  EXPECT_EQ(reported({given, {"a.task", {ListItem("parsing")}}}, rule), "");
  EXPECT_EQ(reported({}, rule), "") << "a default is never reported";
  EXPECT_EQ(reported({{"a.dependent", {ListItem("0")}}}, rule), "");
}

TEST(Condition, NamesTheValueThatDoesNotMeetIt) {
  const auto reason = [](const Condition& condition, const Settings& more = {}) {
    Settings settings = more;
    settings.insert(settings.begin(), given);
    const std::string text = reported(settings, only_with(condition));
    const std::size_t begin = text.find("ignored: ");
    return begin == std::string::npos ? text : text.substr(begin + 9, text.size() - begin - 10);
  };
  EXPECT_EQ(reason(is_above("b.port", 1), {{"b.port", {ListItem("1")}}}), "b.port is 1");
  EXPECT_EQ(reason(is_above("b.port", 1), {{"b.port", {ListItem("2")}}}), "");
  EXPECT_EQ(reason(is_above("b.smoothing", 0), {{"b.smoothing", {ListItem("1e-3")}}}), "");
  EXPECT_EQ(reason(is_set("b.rank")), "b.rank is not set");
  EXPECT_EQ(reason(is_set("b.rank"), {{"b.rank", {ListItem("4")}}}), "");
  EXPECT_EQ(reason(is_set("b.tied"), {{"b.tied", {ListItem("false")}}}), "b.tied is false");
  EXPECT_EQ(reason(is_set("b.port")), "b.port is 0");
  EXPECT_EQ(reason(is_set("b.smoothing")), "b.smoothing is 0");
  EXPECT_EQ(reason(is_set("a.sampling")), "a.sampling is not set");
  EXPECT_EQ(reason(is_not("a.sampling", "none")), "a.sampling is none");
  EXPECT_EQ(reason(is_not("a.sampling", "none"), {{"a.sampling", {ListItem("top")}}}), "");
  EXPECT_EQ(reason(is("b.layers", {"local"})), "b.layers does not contain local");
  EXPECT_EQ(
      reason(is("b.layers", {"local"}), {{"b.layers", {ListItem("full"), ListItem("local")}}}), "");
  EXPECT_EQ(reason(any_of({is_set("b.rank"), is_above("b.port", 0)})),
            "b.rank is not set and b.port is 0");
  EXPECT_EQ(reason(any_of({is_set("b.rank"), is_set("b.tied")})), "");
  EXPECT_EQ(reason(is("c.undeclared", {"yes"})), "");
}

// A condition on a key without effect is not met, whatever its value.
TEST(Condition, FollowsTheConditionsOfItsKey) {
  Values values;
  OptionTable table = table_of(values, only_with(is("a.format", {"text"})));
  table.add_rule("a.format", only_with(is_set("b.rank")));
  assign(table, {given});
  EXPECT_EQ(table.why_ignored("a.dependent"), "b.rank is not set");
  assign(table, {{"b.rank", {ListItem("1")}}});
  EXPECT_EQ(table.why_ignored("a.dependent"), "");
}

TEST(Condition, RequirementsAreErrors) {
  const Condition translation = is("a.task", {"translation"});
  EXPECT_EQ(reported({given}, needs(translation)),
            "a.dependent: 3 requires a.task: translation, found tagging\n");
  EXPECT_EQ(reported({given, {"a.task", {ListItem("translation")}}}, needs(translation)), "");
  EXPECT_EQ(reported({}, needs(translation)), "");
  EXPECT_EQ(reported({given}, needs(is_set("b.rank"))), "a.dependent: 3 requires b.rank\n");
  EXPECT_EQ(reported({given}, needs(is_above("b.port", 0))),
            "a.dependent: 3 requires b.port above 0, found 0\n");
  EXPECT_EQ(reported({given}, value_needs("3", translation)),
            "a.dependent: 3 requires a.task: translation, found tagging\n");
  EXPECT_EQ(reported({given}, value_needs("4", translation)), "");
  EXPECT_EQ(reported({}, value_needs("0", translation)),
            "a.dependent: 0 requires a.task: translation, found tagging\n")
      << "a default value has requirements too";
  EXPECT_EQ(reported({given}, excludes(is_set("b.tied"))),
            "a.dependent: 3 cannot be combined with b.tied; set it to 0\n");
  EXPECT_EQ(reported({given}, value_excludes("3", is_set("b.tied"))),
            "a.dependent: 3 cannot be combined with b.tied; change one of them\n");
  EXPECT_EQ(reported({given, {"b.tied", {ListItem("false")}}}, excludes(is_set("b.tied"))), "");
  EXPECT_EQ(reported({given}, needs(is("c.undeclared", {"yes"}))), "");
  EXPECT_EQ(reported({given}, excludes(is("c.undeclared", {"yes"}))), "");
}

// A rule with alternatives applies only where all of them are declared and valid.
TEST(Condition, AlternativesAreDeclared) {
  const Condition undeclared = any_of({is_set("c.undeclared"), is_set("b.rank")});
  EXPECT_EQ(reported({given}, needs(undeclared)), "");
  EXPECT_EQ(reported({given}, excludes(undeclared)), "");
  const Condition declared = any_of({is_set("b.rank"), is_above("b.port", 0)});
  EXPECT_EQ(reported({given}, needs(declared)),
            "a.dependent: 3 requires b.rank or b.port above 0\n");
  EXPECT_EQ(reported({given, {"b.port", {ListItem("1")}}}, needs(declared)), "");
  EXPECT_EQ(reported({given, {"b.port", {ListItem("many")}}}, needs(declared)),
            "b.port: expected an integer, found \"many\"\n");
  EXPECT_EQ(reported({}, value_needs("0", declared)),
            "a.dependent: 0 requires b.rank or b.port above 0\n");
}

TEST(Condition, InvalidValuesAreReportedOnce) {
  const Constraint rule = needs(is_above("b.port", 0));
  EXPECT_EQ(reported({given, {"b.port", {ListItem("many")}}}, rule),
            "b.port: expected an integer, found \"many\"\n");
}

TEST(Condition, IsPartOfTheReference) {
  Values values;
  const OptionTable table =
      table_of(values,
               only_with(is("a.task", {"translation", "tagging"})),
               only_with(is_above("b.port", 0)),
               needs(is_set("b.rank")),
               needs(is_not("a.sampling", "none")),
               value_excludes("3", any_of({is_set("b.tied"), is_set("b.rank")})));
  EXPECT_EQ(table.reference().front().documentation,
            "what depends. Only with a.task: translation or tagging and b.port above 0. Requires "
            "b.rank and a.sampling other than none. 3 cannot be combined with b.tied or b.rank");
}

}  // namespace
}  // namespace longspan::condition_test
