#include "launch/cli/yaml.h"

#include <gtest/gtest.h>

#include <random>

namespace longspan::yaml_test {
namespace {

std::string complaints_of(const ParsedYaml& settings) {
  std::string lines;
  for (const Diagnostic& complaint : settings.complaints) {
    if (!lines.empty()) lines += '\n';
    lines += fmt::format("{}: {}", complaint.mark.to_string(), complaint.message);
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

TEST(Yaml, SectionsBecomeKeysWithTheirPlaces) {
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
  EXPECT_EQ(complaints_of(settings), "");
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

TEST(Yaml, EachThingThatIsNotAllowedHasItsSentence) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "a:1:1: the file is empty; allowed: the sections of a configuration"},
      {"# only this\n", "a:1:1: the file is empty; allowed: the sections of a configuration"},
      {"---\n", "a:2:1: the file is empty; allowed: the sections of a configuration"},
      {"hello\n", "a:1:1: found \"hello\"; allowed: sections with keys"},
      {"- a\n- b\n", "a:1:1: found a list; allowed: sections with keys"},
      {"a: 1\nb: 2\na: 3\n", "a:3:1: a is given twice, first at a:1:1"},
      {"a:\n  b: 1\n  c: 2\n  b: 3\n", "a:4:3: a.b is given twice, first at a:2:3"},
      {"a: &x 1\n", "a:1:4: found an anchor; allowed: plain values"},
      {"a: &x 1\nb: *x\n",
       "a:1:4: found an anchor; allowed: plain values\n"
       "a:2:4: found an alias; allowed: the value written out"},
      {"a: *x\n", "a:1:4: not valid YAML: the referenced anchor is not defined"},
      {"a: !!int 1\n", "a:1:4: found the tag \"tag:yaml.org,2002:int\"; allowed: plain values"},
      {"a: !mine {b: 1}\n", "a:1:4: found the tag \"!mine\"; allowed: plain values"},
      {"a: 1\n---\nb: 1\n", "a:2:1: found a second document; allowed: one document a file"},
      {"[a, b]: 1\nc: 2\n", "a:1:1: found a list as a key; allowed: a word"},
      {"{a: b}: 1\nc: 2\n", "a:1:1: found a mapping as a key; allowed: a word"},
      {"~: 1\n", "a:1:1: found a key without a name; allowed: a word"},
      {"\"\": 1\n", "a:1:1: found a key without a name; allowed: a word"},
      {"a.b: 1\n", "a:1:1: found the key \"a.b\"; allowed: sections nested, not joined by dots"},
      {"a: [1, [2]]\n", "a:1:8: a: found a list in a list; allowed: words and numbers"},
      {"a:\n  - b: [1]\n",
       "a:2:8: a.b: found a list in a mapping in a list; allowed: words and numbers"},
      {"a: [{b: {c: 1}}]\n",
       "a:1:9: a.b: found a mapping in a mapping in a list; allowed: words and numbers"},
      {"a: [{b: 1, b: 2}]\n", "a:1:12: a.b is given twice, first at a:1:6"},
      {"a: [{b: ~}]\n", "a:1:9: a.b: found no value"},
      {"a: [1, ~]\n", "a:1:8: a: found no value in a list"},
      {"a:\n\tb: 1\n", "a:2:1: found a tab; allowed: indentation with spaces"},
      {"a:\n  \tb: 1\n", "a:2:3: found a tab; allowed: indentation with spaces"},
      {"a: \"\xff\"\n", "a:1:5: byte 0xff is not UTF-8; allowed: UTF-8 text"},
      {std::string("a: b\n\0", 6), "a:2:1: found the byte 0x00; allowed: UTF-8 text"},
      {"\x89HDF\r\n", "a:1:1: byte 0x89 is not UTF-8; allowed: UTF-8 text"},
      {"a: [1, 2\n", "a:2:1: not valid YAML: a [ is not closed"},
      {"a: b: c\n",
       "a:1:5: not valid YAML: a second \":\" in the value; put the value in quotation marks"},
      {"a:\n  b: 1\n c: 2\n",
       "a:3:2: not valid YAML: a line is not indented like those above it, or more follows a "
       "value"},
      {"a: [x] y\n",
       "a:1:8: not valid YAML: a line is not indented like those above it, or more follows a "
       "value"},
      {"a: {b: [1}\n", "a:1:10: not valid YAML: a ] or } closes nothing"},
      {"a: @b\n",
       "a:1:4: not valid YAML: no value begins with this character; put the value in quotation "
       "marks"},
      {"a: \"open\nb: 2\n", "a:3:1: not valid YAML: a quotation mark is not closed"},
      {"a: 'open", "a:1:1: not valid YAML: a quotation mark is not closed"},
      {"a: \"open\n", "a:2:1: not valid YAML: a quotation mark is not closed"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(complaints_of(read_yaml(text, "a")), message) << text;
  }
}

TEST(Yaml, ASectionGivenTwiceIsStillLookedInto) {
  const ParsedYaml settings = read_yaml("a:\n  b: 1\na:\n  c: 2\n", "f");
  EXPECT_EQ(complaints_of(settings), "f:3:1: a is given twice, first at f:1:1");
  EXPECT_EQ(describe(settings), "f:2:3 a.b = 1,\nf:4:3 a.c = 2,\n");
}

TEST(Yaml, DeepNestingIsRefusedNotRecursedInto) {
  std::string deep;
  for (int level = 0; level < 20; ++level) {
    deep += fmt::format("{:{}}a:\n", "", level);
  }
  EXPECT_EQ(complaints_of(read_yaml(deep, "a")), "a:17:17: more than 16 levels deep");
  EXPECT_NE(complaints_of(read_yaml("a: " + std::string(100000, '['), "a")), "");
  EXPECT_NE(complaints_of(read_yaml(std::string(100000, '{'), "a")), "");
  EXPECT_NE(complaints_of(read_yaml(std::string(100000, '?'), "a")), "");
}

TEST(Yaml, AFileThatIsTooLargeIsNotParsed) {
  EXPECT_EQ(complaints_of(read_yaml(std::string(2000000, 'a'), "a")),
            "a: 2000000 bytes; allowed: at most 1048576");
}

TEST(Yaml, SettingsAreOneWordAsItStandsOrAPieceOfYaml) {
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
    EXPECT_EQ(complaints_of(settings), "") << text;
  }
}

TEST(Yaml, BadSettingsHaveTheirSentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"training.max_steps", "--set: found \"training.max_steps\"; allowed: key=value"},
      {"=5", "--set: found \"=5\"; allowed: key=value"},
      {"", "--set: found \"\"; allowed: key=value"},
      {"a.b=[1", "--set: a.b: not valid YAML: a [ is not closed"},
      {"a.b=[1] 2", "--set: a.b: found more after the value"},
      {"a.b='x' 2", "--set: a.b: found more after the value"},
      {"a.b=\xff", "--set: a.b: byte 0xff is not UTF-8; allowed: UTF-8 text"},
      {"a.b={c: 1, c: 2}", "--set: a.b: a.b.c is given twice, first at --set"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(complaints_of(read_setting(text)), message) << text;
  }
}

TEST(Yaml, KeysThatNoMessageCouldNameAreCut) {
  const std::string key(300'000, 'k');
  const std::string wanted =
      "found the key \"" + key.substr(0, 80) + "...\"; allowed: at most 200 letters";
  EXPECT_EQ(complaints_of(read_yaml("run:\n  ? " + key + "\n  : 3\n  a: 1\n", "a")),
            "a:2:5: " + wanted);
  EXPECT_EQ(complaints_of(read_setting(key + "=1")), "--set: " + wanted);
}

TEST(Yaml, WhateverIsInTheFileReadingEnds) {
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
