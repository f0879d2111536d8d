#include "framework/options/options.h"

#include <gtest/gtest.h>

#include "framework/core/quote.h"

namespace longspan::options_test {
namespace {

enum class Kind { plain, gated };

struct Values {
  std::int64_t steps = 100;
  double rate = 0.001;
  bool tied = true;
  std::string path = "book.txt";
  std::string mode = "auto";
  Kind kind = Kind::plain;
  std::vector<std::int64_t> sizes{1, 2};
  std::vector<std::string> names;
  std::optional<double> clip;
};

OptionTable table_of(Values& values) {
  OptionTable table;
  table.add("training.max_steps", values.steps, "steps to take", at_least(1));
  table.add("training.optimizer.rate", values.rate, "how fast", more_than(0.0), less_than(1.0));
  table.add("model.tied", values.tied, "one matrix for both ends", affects_weights());
  table.add("data.path", values.path, "what to read", not_empty());
  table.add("data.mode", values.mode, "how to read", one_of({"auto", "never", "always"}));
  table.add("model.kind", values.kind, "which", {{"plain", Kind::plain}, {"gated", Kind::gated}});
  table.add("model.sizes", values.sizes, "sizes", between(1, 8));
  table.add("model.names", values.names, "names");
  table.add("training.clip", values.clip, "largest norm", more_than(0));
  return table;
}

Assignment scalar(const std::string& key, const std::string& text, int line = 1) {
  return {key, Assignment::Kind::scalar, {{text, false}}, {"run.yaml", line, 3}};
}

Assignment from_set(const std::string& key, const std::string& text) {
  return {key, Assignment::Kind::scalar, {{text, false}}, {}};
}

std::string error_of(const std::vector<Assignment>& assignments) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(assignments);
  try {
    table.finish();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OptionTable, AssignsValuesForEveryType) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector<Assignment>{
      scalar("training.max_steps", "2e3"),
      scalar("training.optimizer.rate", "0.25"),
      scalar("model.tied", "false"),
      {"data.path", Assignment::Kind::scalar, {{"7", true}}, {"run.yaml", 4, 1}},
      scalar("data.mode", "never"),
      scalar("model.kind", "gated"),
      {"model.sizes", Assignment::Kind::list, {{"3"}, {"8"}, {"1"}}, {"run.yaml", 5, 1}},
      scalar("model.names", "one"),
      scalar("training.clip", "2"),
  });
  table.finish();
  EXPECT_EQ(values.steps, 2000);
  EXPECT_EQ(values.rate, 0.25);
  EXPECT_FALSE(values.tied);
  EXPECT_EQ(values.path, "7");
  EXPECT_EQ(values.mode, "never");
  EXPECT_EQ(values.kind, Kind::gated);
  EXPECT_EQ(values.sizes, (std::vector<std::int64_t>{3, 8, 1}));
  EXPECT_EQ(values.names, std::vector<std::string>{"one"});  // a list of one needs no brackets
  EXPECT_EQ(values.clip, 2.0);
  EXPECT_EQ(table.place("data.path"), "run.yaml:4:1");
}

TEST(OptionTable, NoneClearsOptional) {
  Values values;
  values.clip = 3;
  OptionTable table = table_of(values);
  table.assign(std::vector<Assignment>{scalar("training.clip", "none")});
  table.finish();
  EXPECT_FALSE(values.clip.has_value());
}

TEST(OptionTable, LastCommandLineValueOverridesFile) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector<Assignment>{scalar("training.max_steps", "5")});
  table.assign(std::vector<Assignment>{from_set("training.max_steps", "6"),
                                       from_set("training.max_steps", "7")});
  table.finish();
  EXPECT_EQ(values.steps, 7);
  EXPECT_EQ(table.place("training.max_steps"), "--set");
  EXPECT_EQ(table.place("training.clip"), "default");
}

TEST(OptionTable, ReportsEachError) {
  const std::pair<Assignment, const char*> cases[] = {
      {scalar("training.max_steps", "abc"),
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found "abc")"},
      {scalar("training.max_steps", "0"),
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found "0")"},
      {scalar("training.max_steps", "010"),
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found "010" (leading zeros are not allowed))"},
      {{"training.max_steps", Assignment::Kind::scalar, {{"5", true}}, {"run.yaml", 1, 3}},
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found "5" (quoted))"},
      {scalar("training.optimizer.rate", "1"),
       R"(run.yaml:1:3: training.optimizer.rate: expected a number, above 0 and below 1, found "1")"},
      {scalar("model.tied", "yes"),
       R"(run.yaml:1:3: model.tied: expected true or false, found "yes")"},
      {scalar("data.path", ""),
       R"(run.yaml:1:3: data.path: expected a string, not empty, found "")"},
      {scalar("data.mode", "nevr"),
       R"(run.yaml:1:3: data.mode: expected auto, never or always, found "nevr"; did you mean "never"?)"},
      {scalar("model.kind", "x"),
       R"(run.yaml:1:3: model.kind: expected plain or gated, found "x")"},
      {{"model.sizes", Assignment::Kind::list, {{"3"}, {"9"}}, {"run.yaml", 1, 3}},
       R"(run.yaml:1:3: model.sizes: expected a list of integers, each 1 to 8, found the list [3, 9])"},
      {{"training.max_steps", Assignment::Kind::list, {{"3"}}, {"run.yaml", 1, 3}},
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found the list [3])"},
      {{"training.max_steps", Assignment::Kind::nothing, {}, {"run.yaml", 1, 3}},
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found no value)"},
      {{"training.max_steps", Assignment::Kind::section, {}, {"run.yaml", 1, 3}},
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found a section)"},
      {scalar("training.max_steps.more", "1"),
       R"(run.yaml:1:3: training.max_steps: expected an integer, at least 1, found a section with the key "more")"},
      {scalar("training.clip", "0"),
       R"(run.yaml:1:3: training.clip: expected none or a number, above 0, found "0")"},
      {scalar("training", "1"),
       R"(run.yaml:1:3: training: expected a section, found "1"; set the keys of the section)"},
      {scalar("training.max_stpes", "1"),
       R"(run.yaml:1:3: training.max_stpes: unknown key; did you mean "training.max_steps"?)"},
      {scalar("traning.max_steps", "1"),
       R"(run.yaml:1:3: traning.max_steps: unknown key; did you mean "training.max_steps"?)"},
      {scalar("training.rate", "1"),
       R"(run.yaml:1:3: training.rate: unknown key; did you mean "training.optimizer.rate"?)"},
      {scalar("data.zebra", "1"),
       R"(run.yaml:1:3: data.zebra: unknown key; use one of the keys of data: path, mode)"},
      {scalar("training.optimizer.zebra", "1"),
       R"(run.yaml:1:3: training.optimizer.zebra: unknown key; use one of the keys of training.optimizer: rate)"},
      {scalar("optimizer.zebra", "1"),
       R"(run.yaml:1:3: optimizer.zebra: unknown key; use one of the keys of training.optimizer: rate)"},
      {scalar("optimizer.rate", "1"),
       R"(run.yaml:1:3: optimizer.rate: unknown key; did you mean "training.optimizer.rate"?)"},
      {scalar("model.sizes", "none"),
       R"(run.yaml:1:3: model.sizes: expected a list of integers, each 1 to 8, found "none"; write [] for none, or [1, 2])"},
      {scalar("zebra.stripes", "1"),
       R"(run.yaml:1:3: zebra.stripes: unknown key; use one of the sections training, model, data)"},
      {from_set("model.kind", "gate"),
       R"(--set: model.kind: expected plain or gated, found "gate"; did you mean "gated"?)"},
  };
  for (const auto& [assignment, message] : cases) EXPECT_EQ(error_of({assignment}), message);
}

TEST(OptionTable, HintsAtValuesOfLists) {
  const auto message = [](std::vector<std::string> names, const Assignment& assignment) {
    OptionTable table;
    table.add("model.parts", names, "parts", one_of({"query", "key", "value"}));
    table.assign(std::vector<Assignment>{assignment});
    return table.diagnostics().front().message;
  };
  const std::string expected =
      "model.parts: expected a list of strings, each query, key or value, found ";
  EXPECT_EQ(message({"key"}, scalar("model.parts", "true")),
            expected + "\"true\"; write [] for none, or [key]");
  EXPECT_EQ(message({}, scalar("model.parts", "false")), expected + "\"false\"; write [] for none");
  EXPECT_EQ(message({},
                    {"model.parts",
                     Assignment::Kind::list,
                     {{"querry"}, {"key"}, {"vlaue"}, {"zebra"}},
                     {"run.yaml", 1, 3}}),
            expected + "the list [querry, key, vlaue, zebra]; did you mean \"query\", \"value\"?");
}

TEST(OptionTable, ReportsAllErrorsInFileOrder) {
  EXPECT_EQ(error_of({from_set("data.mode", "x"),
                      scalar("training.max_steps", "9", 7),
                      scalar("training.max_steps", "4", 9),
                      scalar("model.tied", "1", 2)}),
            "run.yaml:2:3: model.tied: expected true or false, found \"1\"\n"
            "run.yaml:9:3: training.max_steps: duplicate key, first set at run.yaml:7:3\n"
            "--set: data.mode: expected auto, never or always, found \"x\"");
}

TEST(OptionTable, AcceptsEmptySection) {
  EXPECT_EQ(error_of({{"training", Assignment::Kind::nothing, {}, {"run.yaml", 1, 1}}}),
            "no error");
}

TEST(OptionTable, RejectsMissingRequiredKey) {
  std::string text;
  OptionTable table;
  table.add("data.train", text, "the book", required(), not_empty());
  table.assign(std::vector<Assignment>{});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(),
                 "configuration: data.train: missing required key; set it to a string, not empty");
    EXPECT_EQ(error.code(), ExitCode::configuration);
  }
}

TEST(OptionTable, ReportsFamilyForForeignKey) {
  Values values;
  OptionTable table = table_of(values);
  table.note_other_family("model.adaptive_span.type", "requires model.family giraffe, found zebra");
  table.assign(std::vector<Assignment>{scalar("model.adaptive_span.type", "1", 4)});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(),
                 "run.yaml:4:3: model.adaptive_span.type requires model.family giraffe, found "
                 "zebra");
  }
}

TEST(OptionTable, ReportsFailedCheckAtAssignedKey) {
  Values values;
  OptionTable table = table_of(values);
  int judged = 0;
  table.check({"training.max_steps", "model.sizes"}, [&] {
    ++judged;
    return std::string(values.steps % 2 == 0 ? "" : "the steps must be even");
  });
  table.assign(std::vector<Assignment>{
      {"model.sizes", Assignment::Kind::list, {{"3"}}, {"run.yaml", 6, 1}}});
  values.steps = 3;
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(), "run.yaml:6:1: the steps must be even");
  }
  EXPECT_EQ(judged, 1);
}

TEST(OptionTable, ReportsFailedCheckAtFirstKeyInMessage) {
  Values values;
  OptionTable table = table_of(values);
  table.check({"training.clip", "training.max_steps"},
              [] { return std::string("training.max_steps is too odd for training.clip"); });
  table.assign(std::vector<Assignment>{scalar("training.clip", "3", 6),
                                       scalar("training.max_steps", "3", 9)});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(), "run.yaml:9:3: training.max_steps is too odd for training.clip");
  }
}

TEST(OptionTable, SkipsCheckForInvalidValue) {
  Values values;
  OptionTable table = table_of(values);
  table.check({"training.max_steps"}, [] { return std::string("never said"); });
  table.assign(std::vector<Assignment>{scalar("training.max_steps", "x")});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(std::string(error.what()).find("never said"), std::string::npos);
  }
}

TEST(OptionTable, InvalidValueChangesNothing) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector<Assignment>{
      scalar("training.max_steps", "0"),
      {"model.sizes", Assignment::Kind::list, {{"3"}, {"x"}}, {"run.yaml", 1, 3}}});
  EXPECT_EQ(values.steps, 100);
  EXPECT_EQ(values.sizes, (std::vector<std::int64_t>{1, 2}));
}

TEST(OptionTable, WarnsAboutIgnoredKeys) {
  Values values;
  OptionTable table = table_of(values);
  for (const std::string key : {"data.mode", "model.sizes", "training.max_steps"})
    table.warn(key, [&] { return values.tied ? "model.tied is true" : ""; });
  EXPECT_THROW(table.warn("no.key", [] { return ""; }), Failure);
  table.finish();
  EXPECT_EQ(table.warnings(), std::vector<std::string>());
  table.assign(std::vector<Assignment>{from_set("data.mode", "never"),
                                       scalar("training.max_steps", "7", 9),
                                       scalar("model.sizes", "3", 2)});
  table.finish();
  EXPECT_EQ(
      table.warnings(),
      (std::vector<std::string>{"run.yaml:2:3: model.sizes is ignored: model.tied is true",
                                "run.yaml:9:3: training.max_steps is ignored: model.tied is true",
                                "--set: data.mode is ignored: model.tied is true"}));
  table.assign(std::vector<Assignment>{from_set("training.max_steps", "100")});  // the default
  EXPECT_EQ(table.warnings().size(), 2u);
  table.assign(std::vector<Assignment>{from_set("model.tied", "false")});
  EXPECT_EQ(table.warnings(), std::vector<std::string>());
}

TEST(OptionTable, RejectsConflictingDeclarations) {
  Values values;
  OptionTable table = table_of(values);
  EXPECT_THROW(table.add("training.max_steps", values.steps, ""), Failure);
  EXPECT_THROW(table.add("training.optimizer", values.steps, ""), Failure);
  EXPECT_THROW(table.add("training.max_steps.first", values.steps, ""), Failure);
  EXPECT_THROW(table.add("steps", values.steps, ""), Failure);
}

TEST(OptionTable, ResolvedGroupsSectionsAndReportsSources) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector<Assignment>{scalar("training.optimizer.rate", "0.5", 9),
                                       from_set("data.path", "a: b")});
  table.finish();
  EXPECT_EQ(table.resolved(),
            "training:\n"
            "  max_steps: 100                              # default\n"
            "  optimizer:\n"
            "    rate: 0.5                                 # run.yaml:9:3\n"
            "  clip: none                                  # default\n"
            "\n"
            "model:\n"
            "  tied: true                                  # default\n"
            "  kind: plain                                 # default\n"
            "  sizes: [1, 2]                               # default\n"
            "  names: []                                   # default\n"
            "\n"
            "data:\n"
            "  path: \"a: b\"                                # --set\n"
            "  mode: auto                                  # default\n");
}

TEST(OptionTable, ReferenceContainsEveryKey) {
  Values values;
  std::string given;
  OptionTable table = table_of(values);
  table.add("data.given", given, "must | be there", required());
  const std::string help = help_text(table.reference());
  EXPECT_NE(help.find("training.optimizer.rate\n      how fast\n"
                      "      (number, above 0 and below 1; default 0.001)"),
            std::string::npos)
      << help;
  const std::string page = markdown(table.reference());
  EXPECT_NE(page.find("| `data.mode` | string | auto, never or always | `auto` | how to read |"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("| `data.given` | string |  | required | must \\| be there |"),
            std::string::npos)
      << page;
  EXPECT_EQ(table.reference().size(), 10u);
}

TEST(OptionTable, ValuesReportKeysThatAffectWeights) {
  Values values;
  OptionTable table = table_of(values);
  for (const OptionValue& value : table.values()) {
    EXPECT_EQ(value.affects_weights, value.key == "model.tied");
  }
}

TEST(OptionTable, TrueAndFalseNamesMakeBoolean) {
  enum class Order : std::uint8_t { serial, parallel };
  Order order = Order::serial;
  OptionTable table;
  table.add("model.use_parallel_residual",
            order,
            "sum of both",
            {{"false", Order::serial}, {"true", Order::parallel}});
  EXPECT_EQ(table.reference()[0].type, "true or false");
  EXPECT_EQ(table.reference()[0].allowed, "");
  table.assign(std::vector<Assignment>{scalar("model.use_parallel_residual", "true")});
  table.finish();
  EXPECT_EQ(order, Order::parallel);
  EXPECT_EQ(table.values()[0].text, "true");
  table.assign(std::vector<Assignment>{from_set("model.use_parallel_residual", "parallel")});
  EXPECT_THROW(table.finish(), ConfigurationError);
}

TEST(OptionTable, FormerKeyIsUnknownWithHint) {
  std::int64_t size = 1;
  std::string kinds = "full";
  const auto message = [&](const Assignment& assignment) {
    OptionTable table;
    table.add("model.hidden_size", size, "size");
    table.add("model.attention.layer_types", kinds, "kinds");
    table.assign(std::vector<Assignment>{assignment});
    return table.diagnostics().front().message;
  };
  EXPECT_EQ(message(scalar("model.width", "8")),
            "model.width: unknown key; did you mean \"model.hidden_size\"?");
  EXPECT_EQ(message(scalar("model.attention", "local")),
            "model.attention: expected a section, found \"local\"; did you mean "
            "\"model.attention.layer_types\"?");
}

TEST(EditDistance, CountsTranspositionOnce) {
  EXPECT_EQ(edit_distance("steps", "steps"), 0u);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Quote, TruncatesBetweenCharacters) {
  std::string text(79, 'a');
  text += "\xc3\xa9xyz";
  EXPECT_EQ(quote(text), "\"" + std::string(79, 'a') + "...\"");
}

}  // namespace
}  // namespace longspan::options_test
