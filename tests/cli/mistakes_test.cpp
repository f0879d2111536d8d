// Configurations with many errors, or with an error that affects other checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "framework/options/diagnostic.h"
#include "launch/cli/configuration.h"
#include "tests/support/sanitizers.h"

namespace longspan::mistakes_test {
namespace {

std::string refusal(const std::string& text, std::vector<std::string> settings = {}) {
  try {
    configure({.file = "c.yaml", .text = text, .settings = std::move(settings)});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* unknown_family =
    "c.yaml:3:3: model.family: expected transformer_xl, decoder, universal_transformer, "
    "encoder_decoder, encoder or image_transformer, found \"decodr\"; did you mean \"decoder\"?";

TEST(ConfigurationError, ReportsOtherErrorsWithUnknownFamily) {
  EXPECT_EQ(
      refusal("run: {output_dir: r}\n"
              "model:\n"
              "  family: decodr\n"
              "  num_hidden_layers: none\n"
              "  num_hiden_layers: 3\n"
              "  same_length: true\n"
              "  clamp_len: many\n"
              "  num_attention_heads: 3\n"
              "  zebra: 1\n"
              "data: {train: t, global_batch_size: 0}\n"
              "training:\n"
              "  max_stepz: 4\n",
              {"model.hidden_size=100", "run.sead=4", "model.vocab_sise=3"}),
      std::string(unknown_family) +
          "\n"
          "c.yaml:4:3: model.num_hidden_layers: expected an integer, 1 to 65536, found \"none\"\n"
          "c.yaml:5:3: model.num_hiden_layers: unknown key of every model.family; did you mean "
          "\"model.num_hidden_layers\"?\n"
          "c.yaml:7:3: model.clamp_len: expected none or an integer, 0 to 68719476736, found "
          "\"many\"\n"
          "c.yaml:9:3: model.zebra: unknown key of every model.family\n"
          "c.yaml:10:18: data.global_batch_size: expected an integer, 1 to 16777216, found \"0\"\n"
          "c.yaml:12:3: training.max_stepz: unknown key; did you mean \"training.max_steps\"?\n"
          "--set: run.sead: unknown key; did you mean \"run.seed\"?\n"
          "--set: model.vocab_sise: unknown key of every model.family; did you mean "
          "\"model.vocab_size\"?\n"
          "--set: model.hidden_size: expected a multiple of model.num_attention_heads = 3, found "
          "100; set model.head_dim or change one of them");
}

TEST(ConfigurationError, ReportsOtherErrorsWithMissingFamily) {
  EXPECT_EQ(refusal("run: {output_dir: r}\nmodel:\n  num_hidden_layers: 0\ndata: {train: t}\n"),
            "c.yaml: model.family: missing required key; set it to transformer_xl, decoder, "
            "universal_transformer, encoder_decoder, encoder or image_transformer\n"
            "c.yaml:3:3: model.num_hidden_layers: expected an integer, 1 to 65536, found \"0\"");
  // This file has only keys of a family.
  EXPECT_NE(refusal("model:\n  num_hidden_layers: 2\n")
                .find("\n"
                      "c.yaml: model.family: missing required "
                      "key"),
            std::string::npos);
}

// A key is valid if any family has it.
TEST(ConfigurationError, ReportsOnlyUnknownFamilyIfKeysAreValid) {
  EXPECT_EQ(refusal("run: {output_dir: r}\n"
                    "model:\n  family: decodr\n  num_hidden_layers: 3\n  same_length: true\n"
                    "  max_position_embeddings: 512\n"
                    "data: {train: t}\n"),
            unknown_family);
}

// Limit of CPU time, since other processes may use the machine. The documented limit is 2 s per
// megabyte. A core shared with another thread takes up to twice as long. Sanitizers take about
// twelve times as long and read a quarter of the text.
constexpr std::clock_t quick = (testing::sanitized ? 10 : 4) * CLOCKS_PER_SEC;
constexpr int share = testing::sanitized ? 4 : 1;

// Returns the error message. Checks its length and the CPU time.
std::string quick_refusal(const std::string& text) {
  EXPECT_LE(text.size(), max_configuration_bytes);
  const std::clock_t begin = std::clock();
  const std::string message = refusal(text);
  EXPECT_LT(std::clock() - begin, quick) << message;
  EXPECT_LT(message.size(), 20000u);
  EXPECT_LE(std::ranges::count(message, '\n'), static_cast<int>(max_reported));
  return message;
}

std::string repeated(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line;
  return text;
}

TEST(ConfigurationError, SuggestsModelFamilyForModelType) {
  EXPECT_NE(
      refusal("run: {output_dir: r}\nmodel: {type: decoder}\n")
          .find("model.type: unknown key of every model.family; did you mean \"model.family\"?"),
      std::string::npos);
}

TEST(ConfigurationError, TruncatesManyDuplicateKeysQuickly) {
  constexpr int count = 140000 / share;
  const std::string message = quick_refusal("model:\n" + repeated("  a: 1\n", count));
  EXPECT_NE(message.find("\nc.yaml:2:3: model.a: unknown key of every model.family\n"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("c.yaml:3:3: model.a: duplicate key, first set at c.yaml:2:3\n"),
            std::string::npos);
  EXPECT_TRUE(message.ends_with(fmt::format("\nand {} more errors", count - 47))) << message;
  // All keys on one line.
  quick_refusal("run: {" + repeated("a: 1, ", count) + "}\n");
}

TEST(ConfigurationError, TruncatesManyUnknownKeysQuickly) {
  for (const std::string head :
       {"run: {output_dir: r}\nmodel: {family: decoder}\ntraining:\n",  // known family
        "run: {output_dir: r}\nmodel:\n  family: decodr\n"}) {
    std::string text = head;
    for (int i = 0; i < 90000 / share; ++i) text += fmt::format("  {:x}: 1\n", i);
    const std::string message = quick_refusal(text);
    EXPECT_NE(message.find("more errors"), std::string::npos) << message;
  }
}

TEST(ConfigurationError, TruncatesLongValuesQuickly) {
  const std::string word(500000, 'a');
  quick_refusal(word + ":\n" + repeated("  b: 1\n", 50000));
  quick_refusal("run:\n  output_dir: r\n  seed: " + word + "\n");
  quick_refusal("run:\n  output_dir: r\n  device: " + word + "\n");
  quick_refusal("run:\n  output_dir: r\n  seed: [" + repeated("1, ", 150000) + "]\n");
  quick_refusal("model:\n  family: " + word + "\n");
}

// Terminals interpret control characters.
TEST(ConfigurationError, EscapesControlCharacters) {
  EXPECT_EQ(quick_refusal("run:\n  output_dir: r\n  \"\\e[31m\": 1\n  \"\\e[31m\": 1\n"
                          "model: {family: decoder}\ndata: {train: t}\n")
                .substr(0, 43),
            "c.yaml:3:3: run.\\x1b[31m: unknown key; use ");
}

TEST(ConfigurationError, RejectsLargeInvalidFilesQuickly) {
  for (const char* piece : {"- 1\n",       "? ",
                            "{",           "[",
                            "a:\n",        "&a ",
                            "!a ",         "\"",
                            "'",           "a: |\n",
                            "# a\n",       "a: [1\n",
                            "a: {b: 1}\n", "a: *b\n",
                            "--- a\n",     "%a\n",
                            ": ",          "a: b: c\n",
                            "-\n",         "{a: ",
                            "- - ",        "\xc3\xa9: 1\n",
                            "[a]: 1\n",    "a\n",
                            "<<: 1\n",     "a: &x 1\n",
                            "a: !!int 1\n"}) {
    const std::string line = piece;
    std::string text =
        repeated(line, static_cast<int>((std::size_t{1} << 20) / line.size()) / share);
    EXPECT_FALSE(quick_refusal(text).empty()) << line;
  }
}

}  // namespace
}  // namespace longspan::mistakes_test
