#include "launch/cli/yaml.h"

#include <gtest/gtest.h>

#include <random>

namespace longspan::yaml_test {
namespace {

std::string diagnostics_of(const ParsedYaml& settings) {
  std::string lines;
  for (const Diagnostic& diagnostic : settings.complaints) {
    if (!lines.empty()) lines += '\n';
    lines += fmt::format("{}: {}", diagnostic.mark.to_string(), diagnostic.message);
  }
  return lines;
}

std::string describe(const ParsedYaml& settings) {
  static const char* kinds[] = {"", "list", "nothing", "section"};
  std::string lines;
  for (const Assignment& assignment : settings.assignments) {
    lines += fmt::format("{} {} = {}",
                         assignment.mark.to_string(),
                         assignment.key,
                         kinds[static_cast<int>(assignment.kind)]);
    for (const Scalar& scalar : assignment.scalars) {
      lines += fmt::format(fmt::runtime(scalar.quoted ? "'{}'," : "{},"), scalar.text);
    }
    lines += '\n';
  }
  return lines;
}

TEST(Yaml, FlattensSectionsToKeysWithLocations) {
  const ParsedYaml settings = read_yaml(
      "# a comment\r\n"
      "model:\r\n"
      "  family: decoder\n"
      "  sizes: [1, \"2\", three four]\n"
      "  names:\n"
      "    - one\n"
      "    - 'two'\n"
      "  attention: {kind: local, reach: 3}\n"
      "data:\n"
      "  train: >\n"
      "    folded\n"
      "    text\n"
      "memory:\n"
      "parallel: {}\n"
      "none: []\n"
      "\"quoted\": ~\n",
      "a.yaml");
  EXPECT_EQ(diagnostics_of(settings), "");
  EXPECT_EQ(describe(settings),
            "a.yaml:3:3 model.family = decoder,\n"
            "a.yaml:4:3 model.sizes = list1,'2',three four,\n"
            "a.yaml:5:3 model.names = listone,'two',\n"
            "a.yaml:8:15 model.attention.kind = local,\n"
            "a.yaml:8:28 model.attention.reach = 3,\n"
            "a.yaml:10:3 data.train = 'folded text\n',\n"
            "a.yaml:13:1 memory = nothing\n"
            "a.yaml:14:1 parallel = section\n"
            "a.yaml:15:1 none = list\n"
            "a.yaml:16:1 quoted = nothing\n");
}

TEST(Yaml, ColumnsCountCharacters) {
  const ParsedYaml settings = read_yaml("data: {train: \"\xc3\xa9\xe2\x82\xac\", test: x}\n", "a");
  EXPECT_EQ(describe(settings),
            "a:1:8 data.train = '\xc3\xa9\xe2\x82\xac',\n"
            "a:1:21 data.test = x,\n");
}

TEST(Yaml, RejectsInvalidAndUnsupportedYaml) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "a:1:1: expected the sections of a configuration, found an empty file"},
      {"# only this\n", "a:1:1: expected the sections of a configuration, found an empty file"},
      {"---\n", "a:2:1: expected the sections of a configuration, found an empty file"},
      {"hello\n", "a:1:1: expected sections with keys, found \"hello\""},
      {"- a\n- b\n", "a:1:1: expected sections with keys, found a list"},
      {"a: 1\nb: 2\na: 3\n", "a:3:1: a: duplicate key, first set at a:1:1"},
      {"a:\n  b: 1\n  c: 2\n  b: 3\n", "a:4:3: a.b: duplicate key, first set at a:2:3"},
      {"a: &x 1\n", "a:1:4: expected a plain value, found an anchor"},
      {"a: &x 1\nb: *x\n",
       "a:1:4: expected a plain value, found an anchor\n"
       "a:2:4: expected a value, found an alias"},
      {"a: *x\n", "a:1:4: invalid YAML: the referenced anchor is not defined"},
      {"a: !!int 1\n", "a:1:4: expected a plain value, found the tag \"tag:yaml.org,2002:int\""},
      {"a: !mine {b: 1}\n", "a:1:4: expected a plain value, found the tag \"!mine\""},
      {"a: 1\n---\nb: 1\n", "a:2:1: expected one document, found a second"},
      {"[a, b]: 1\nc: 2\n", "a:1:1: expected a key name, found a list"},
      {"{a: b}: 1\nc: 2\n", "a:1:1: expected a key name, found a mapping"},
      {"~: 1\n", "a:1:1: expected a key name, found none"},
      {"\"\": 1\n", "a:1:1: expected a key name, found none"},
      {"a.b: 1\n", "a:1:1: expected nested sections, found the dotted key \"a.b\""},
      {"a: [1, [2]]\n", "a:1:8: a: expected strings and numbers, found a list in a list"},
      {"a:\n  - b: [1]\n",
       "a:2:8: a.b: expected strings and numbers, found a list in a mapping in a list"},
      {"a: [{b: {c: 1}}]\n",
       "a:1:9: a.b: expected strings and numbers, found a mapping in a mapping in a list"},
      {"a: [{b: 1, b: 2}]\n", "a:1:12: a.b: duplicate key, first set at a:1:6"},
      {"a: [{b: ~}]\n", "a:1:9: a.b: missing value"},
      {"a: [1, ~]\n", "a:1:8: a: missing value in a list"},
      {"a:\n\tb: 1\n", "a:2:1: expected indentation with spaces, found a tab"},
      {"a:\n  \tb: 1\n", "a:2:3: expected indentation with spaces, found a tab"},
      {"a: \"\xff\"\n", "a:1:5: expected UTF-8 text, found the invalid byte 0xff"},
      {std::string("a: b\n\0", 6), "a:2:1: expected UTF-8 text, found the control byte 0x00"},
      {"\x89HDF\r\n", "a:1:1: expected UTF-8 text, found the invalid byte 0x89"},
      {"a: [1, 2\n", "a:2:1: invalid YAML: unclosed ["},
      {"a: b: c\n", "a:1:5: invalid YAML: second \":\" in a value; quote the value"},
      {"a:\n  b: 1\n c: 2\n",
       "a:3:2: invalid YAML: inconsistent indentation, or text after a value"},
      {"a: [x] y\n", "a:1:8: invalid YAML: inconsistent indentation, or text after a value"},
      {"a: {b: [1}\n", "a:1:10: invalid YAML: unmatched ] or }"},
      {"a: @b\n", "a:1:4: invalid YAML: invalid first character of a value; quote the value"},
      {"a: \"open\nb: 2\n", "a:3:1: invalid YAML: unclosed quotation mark"},
      {"a: 'open", "a:1:1: invalid YAML: unclosed quotation mark"},
      {"a: \"open\n", "a:2:1: invalid YAML: unclosed quotation mark"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(diagnostics_of(read_yaml(text, "a")), message) << text;
  }
}

TEST(Yaml, ReadsDuplicateSections) {
  const ParsedYaml settings = read_yaml("a:\n  b: 1\na:\n  c: 2\n", "f");
  EXPECT_EQ(diagnostics_of(settings), "f:3:1: a: duplicate key, first set at f:1:1");
  EXPECT_EQ(describe(settings), "f:2:3 a.b = 1,\nf:4:3 a.c = 2,\n");
}

TEST(Yaml, RejectsDeepNesting) {
  std::string deep;
  for (int level = 0; level < 20; ++level) {
    deep += fmt::format("{:{}}a:\n", "", level);
  }
  EXPECT_EQ(diagnostics_of(read_yaml(deep, "a")), "a:17:17: nested more than 16 levels deep");
  EXPECT_NE(diagnostics_of(read_yaml("a: " + std::string(100000, '['), "a")), "");
  EXPECT_NE(diagnostics_of(read_yaml(std::string(100000, '{'), "a")), "");
  EXPECT_NE(diagnostics_of(read_yaml(std::string(100000, '?'), "a")), "");
}

TEST(Yaml, RejectsTooLargeFiles) {
  EXPECT_EQ(diagnostics_of(read_yaml(std::string(2000000, 'a'), "a")),
            "a: expected at most 1048576 bytes, found 2000000");
}

TEST(Yaml, ReadsSettingsAsPlainTextOrYaml) {
  const std::pair<const char*, const char*> cases[] = {
      {"training.max_steps=5", "--set training.max_steps = 5,\n"},
      {"data.train=a: b #c=d", "--set data.train = a: b #c=d,\n"},
      {"data.train=", "--set data.train = ,\n"},
      {"data.train=~", "--set data.train = ~,\n"},
      {"a.b=[x, 'y']", "--set a.b = listx,'y',\n"},
      {"a.b=[]", "--set a.b = list\n"},
      {"a.b=\"[x]\"", "--set a.b = '[x]',\n"},
      {"a.b={c: 1, d: {e: [2]}}", "--set a.b.c = 1,\n--set a.b.d.e = list2,\n"},
  };
  for (const auto& [text, expected] : cases) {
    const ParsedYaml settings = read_setting(text);
    EXPECT_EQ(describe(settings), expected) << text;
    EXPECT_EQ(diagnostics_of(settings), "") << text;
  }
}

TEST(Yaml, RejectsInvalidSettings) {
  const std::pair<const char*, const char*> cases[] = {
      {"training.max_steps", "--set: expected key=value, found \"training.max_steps\""},
      {"=5", "--set: expected key=value, found \"=5\""},
      {"", "--set: expected key=value, found \"\""},
      {"a.b=[1", "--set: a.b: invalid YAML: unclosed ["},
      {"a.b=[1] 2", "--set: a.b: expected the end of the value, found more text"},
      {"a.b='x' 2", "--set: a.b: expected the end of the value, found more text"},
      {"a.b=\xff", "--set: a.b: expected UTF-8 text, found the invalid byte 0xff"},
      {"a.b={c: 1, c: 2}", "--set: a.b: a.b.c: duplicate key, first set at --set"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(diagnostics_of(read_setting(text)), message) << text;
  }
}

TEST(Yaml, TruncatesLongKeysInErrors) {
  const std::string key(300'000, 'k');
  const std::string expected =
      "expected a key of at most 200 characters, found \"" + key.substr(0, 80) + "...\"";
  EXPECT_EQ(diagnostics_of(read_yaml("run:\n  ? " + key + "\n  : 3\n  a: 1\n", "a")),
            "a:2:5: " + expected);
  EXPECT_EQ(diagnostics_of(read_setting(key + "=1")), "--set: " + expected);
}

TEST(Yaml, SurvivesRandomMutations) {
  const std::string seed =
      "model:\n  family: decoder\n  sizes: [1, \"2\", {a: b}]\n? [x]\n: &y !!t *z\n--- |\n x\n";
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    const auto changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      static const std::string alphabet = "{}[]:,-?&*!|>'\"%@` \n#ab~\xc3\xa9\t.";
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
      if (text.empty()) text = "a";
    }
    const ParsedYaml settings = read_yaml(text, "a");
    for (const Assignment& assignment : settings.assignments) EXPECT_FALSE(assignment.key.empty());
  }
}

}  // namespace
}  // namespace longspan::yaml_test
