#include "launch/cli/reference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/options/field_names.h"

namespace longspan::reference_test {
namespace {

std::vector<std::string> keys_about(const std::vector<std::string>& words) {
  std::vector<std::string> keys;
  for (const OptionDescription& option : search(configuration_reference(), words))
    keys.push_back(option.key);
  return keys;
}

bool has(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::count(keys, key) > 0;
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    keys_about(words);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(Reference, ListsEveryKeyOnce) {
  const auto reference = configuration_reference();
  int families_key = 0;
  int width = 0;
  int same_length = 0;
  std::string last_section;
  std::vector<std::string> sections;
  for (const OptionDescription& option : reference) {
    EXPECT_FALSE(option.documentation.empty()) << option.key;
    families_key += option.key == "model.family";
    width += option.key == "model.hidden_size";
    if (option.key == "model.same_length") {
      ++same_length;
      EXPECT_TRUE(option.documentation.ends_with(" (family transformer_xl)"));
    }
    const std::string section = option.key.substr(0, option.key.find('.'));
    if (section != last_section) sections.push_back(section);
    last_section = section;
  }
  EXPECT_EQ(families_key, 1);
  EXPECT_EQ(width, 1);
  EXPECT_EQ(same_length, 1);
  EXPECT_EQ(sections,
            (std::vector<std::string>{"run",
                                      "model",
                                      "data",
                                      "ppo",
                                      "training",
                                      "parallel",
                                      "memory",
                                      "precision",
                                      "checkpoint",
                                      "metrics"}));
}

TEST(Reference, FindsKeysByPrefix) {
  const auto keys = keys_about({"model.attention.s"});
  EXPECT_TRUE(has(keys, "model.attention.sliding_window"));
  EXPECT_TRUE(has(keys, "model.attention.summary.num_columns"));
  for (const std::string& key : keys) EXPECT_TRUE(key.starts_with("model.attention.s")) << key;
  EXPECT_EQ(keys_about({"training.max_grad_norm"}),
            std::vector<std::string>{"training.max_grad_norm"});
}

TEST(Reference, FindsKeysBySection) {
  for (const std::string& key : keys_about({"parallel"}))
    EXPECT_TRUE(key.starts_with("parallel.")) << key;
  const auto optimizer = keys_about({"training.optimizer"});
  EXPECT_TRUE(has(optimizer, "training.optimizer.beta1"));
  EXPECT_FALSE(has(optimizer, "training.max_steps"));
  EXPECT_TRUE(has(keys_about({"model.attention"}), "model.attention.layer_types"));
}

TEST(Reference, FindsKeysByWordInNameOrDescription) {
  const auto dropout = keys_about({"Dropout"});
  EXPECT_TRUE(has(dropout, "model.dropout"));
  EXPECT_TRUE(has(dropout, "model.attention.dropout"));
  EXPECT_TRUE(has(keys_about({"overflow"}), "precision.loss_scale.init_scale"));
  const auto both = keys_about({"precision", "overflow"});
  EXPECT_TRUE(has(both, "precision.loss_scale.hysteresis"));
  EXPECT_FALSE(has(both, "precision.compute_dtype"));
}

TEST(Reference, FindsKeysByAlias) {
  for (const auto& [name, key] : {std::pair("lr", "training.learning_rate"),
                                  {"batch_size", "data.global_batch_size"},
                                  {"hidden_size", "model.hidden_size"},
                                  {"gradient_accumulation", "training.gradient_accumulation_steps"},
                                  {"Weight-Decay", "training.optimizer.weight_decay"},
                                  {"max_grad_norm", "training.max_grad_norm"},
                                  {"rotary", "model.position_embedding_type"}})
    EXPECT_TRUE(has(keys_about({name}), key)) << name;
  for (const char* const word : {"flash", "flash_attention_2", "nucleus", "num_gpus"})
    EXPECT_EQ(notes_about({word}).size(), 1u) << word;
  for (const char* const word : {"dropout", "model", "encoder", "validation", "weight"})
    EXPECT_TRUE(notes_about({word}).empty()) << word;
}

TEST(Reference, MatchesWordPrefixes) {
  EXPECT_TRUE(starts_word_piece("data.global_batch_tokens", "Tokens"));
  EXPECT_FALSE(starts_word_piece("it is there already", "lr"));
  for (const std::string& key : keys_about({"lr"}))
    EXPECT_TRUE(key.starts_with("training.")) << key;  // the learning rate and its schedule
}

TEST(FieldNames, MapsToExistingKeysAndValues) {
  std::vector<OptionDescription> reference = configuration_reference();
  for (const FieldName& entry : field_names()) {
    EXPECT_TRUE(!entry.key.empty() || !entry.note.empty()) << entry.names;
    if (entry.key.empty()) continue;
    bool exists = false, has_value = entry.value.empty();
    for (const OptionDescription& option : reference) {
      if (option.key != entry.key) continue;
      exists = true;
      has_value = has_value || std::ranges::count(option.rule.choices, entry.value) > 0 ||
                  (option.form.word == WordType::boolean &&
                   (entry.value == "true" || entry.value == "false"));
      // The documentation lists the attention types.
      if (option.key == "model.attention.layer_types")
        has_value = has_value || starts_word_piece(option.documentation, entry.value);
    }
    EXPECT_TRUE(exists) << entry.key;
    EXPECT_TRUE(has_value) << entry.key << ": " << entry.value;
  }
}

TEST(Reference, SuggestsNearestKey) {
  EXPECT_EQ(refusal({"model.atention.layer_types"}),
            "no key matches \"model.atention.layer_types\"; did you mean "
            "\"model.attention.layer_types\"?");
  EXPECT_EQ(refusal({"clmap_len"}),
            "no key matches \"clmap_len\"; did you mean \"model.clamp_len\"?");
  EXPECT_EQ(refusal({"giraffe"}), "no key matches \"giraffe\"");
  EXPECT_EQ(refusal({"parallel", "giraffe"}), "no key matches \"giraffe\" and the words before it");
}

TEST(Reference, ListsFamilyKeysWithCurrentValues) {
  const auto configuration =
      configure({.file = "a.yaml",
                 .text = "run: {output_dir: r}\nmodel: {family: decoder}\ndata: {train: t}\n",
                 .settings = {"training.max_steps=7"}});
  const auto reference = reference_of(*configuration);
  const auto find = [&](const std::string& key) {
    return std::ranges::find(reference, key, &OptionDescription::key);
  };
  EXPECT_EQ(find("model.same_length"), reference.end());
  EXPECT_EQ(find("training.max_steps")->set_to, "7");
  EXPECT_EQ(find("training.max_steps")->set_at, "--set");
  EXPECT_EQ(find("data.train")->set_at, "a.yaml:3:8");
  EXPECT_EQ(find("run.seed")->set_to, "");
  const std::string text = help_text(search(reference, {"training.max_steps"}));
  EXPECT_NE(text.find("default 1000; current value 7, set at --set)"), std::string::npos) << text;
  const std::string page = markdown(search(reference, {"training.max_steps"}));
  EXPECT_NE(page.find("| `1000`; current value `7`, set at --set |"), std::string::npos) << page;
}

}  // namespace
}  // namespace longspan::reference_test
