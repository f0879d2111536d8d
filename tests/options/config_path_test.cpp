#include "framework/core/config_path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "framework/options/options.h"

namespace longspan::config_path_test {
namespace {

std::string here() { return std::filesystem::current_path().string(); }

struct Values {
  ConfigPath text = "book.txt";
  ConfigPath directory;
};

OptionTable table_of(Values& values) {
  OptionTable table;
  table.add("data.train", values.text, "what to read");
  table.add("run.output_dir", values.directory, "where to write", required(), not_empty());
  return table;
}

Assignment from_file(const std::string& key, const std::string& text) {
  return {key, Assignment::Kind::scalar, {{text}}, {"run.yaml", 3, 5}};
}

Assignment from_set(const std::string& key, const std::string& text) {
  return {key, Assignment::Kind::scalar, {{text}}, {}};
}

TEST(ConfigPath, ReportsKeyAndLocation) {
  Values values;
  OptionTable table = table_of(values);
  EXPECT_EQ(values.text.describe(), "data.train: book.txt");
  table.assign(std::vector{from_file("data.train", "a.txt"), from_set("run.output_dir", "out")});
  table.finish();
  EXPECT_EQ(values.text, "a.txt");
  EXPECT_EQ(values.text.describe(), "run.yaml:3:5: data.train: a.txt");
  EXPECT_EQ(values.directory.describe(), "--set: run.output_dir: out");
  EXPECT_EQ(ConfigPath("a.txt").describe(), "a.txt");
}

TEST(ConfigPath, InvalidValueKeepsLocation) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector{from_file("run.output_dir", "out"), from_set("run.output_dir", "")});
  EXPECT_EQ(values.directory.describe(), "run.yaml:3:5: run.output_dir: out");
}

TEST(ConfigPath, HintsAtDirectoryAndCommandForMissingFile) {
  const std::string from = "; check the current directory, where relative paths start: " + here();
  EXPECT_EQ(ConfigPath("book.txt").not_found_hint(), from);
  EXPECT_EQ(ConfigPath("/a/book.txt").not_found_hint(), "");
  EXPECT_EQ(ConfigPath("runs/corpora/kjv/train.txt").not_found_hint(),
            from + "; run launch/corpus kjv");
  EXPECT_EQ(ConfigPath("/a/runs/x/../corpora//gcide/validation.txt").not_found_hint(),
            "; run launch/corpus gcide");
  EXPECT_EQ(ConfigPath("/a/runs/corpora/my-book/test.txt").not_found_hint(),
            "; run launch/corpus my-book.txt to make it from your file my-book.txt");
  EXPECT_EQ(ConfigPath("/a/runs/corpora/kjv/other.txt").not_found_hint(), "");
  EXPECT_EQ(ConfigPath("/a/corpora/kjv/train.txt").not_found_hint(), "");
}

TEST(ConfigPath, ExpandsTilde) {
  const auto taken = [](const std::string& text) {
    Values values;
    OptionTable table = table_of(values);
    table.set_home("/home/ada");
    table.assign(std::vector{from_set("run.output_dir", text)});
    table.finish();
    return values.directory.text();
  };
  EXPECT_EQ(taken("~"), "/home/ada");
  EXPECT_EQ(taken("~/runs/a"), "/home/ada/runs/a");
  EXPECT_EQ(taken("~ada/runs"), "~ada/runs");
  EXPECT_EQ(taken("runs/~/a"), "runs/~/a");
}

TEST(ConfigPath, RejectsTildeWithoutHome) {
  Values values;
  OptionTable table = table_of(values);
  table.assign(std::vector{from_file("run.output_dir", "~/runs")});
  const std::vector<Diagnostic> found = table.diagnostics();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "run.output_dir: expected a path, not empty, found \"~/runs\" (~ requires HOME, which "
            "is not set)");
}

}  // namespace
}  // namespace longspan::config_path_test
