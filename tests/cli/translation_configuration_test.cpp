// Checks of settings against the task and the model family.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/cli/api.h"
#include "launch/cli/configuration.h"

namespace longspan::translation_configuration_test {
namespace {

constexpr const char* good =
    "run: {output_dir: r, task: translation}\n"
    "model: {family: encoder_decoder}\n"
    "data: {train: a, train_target: b}\n";

std::string refusal(const std::vector<std::string>& settings, const std::string& text = good) {
  try {
    configure({.file = "c.yaml", .text = text, .settings = settings});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(TranslationConfiguration, AcceptsValidConfigurations) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"data.validation=c", "data.validation_target=d"}), "");
  EXPECT_EQ(refusal({"data.tokenizer.type=sentencepiece", "data.tokenizer.model_type=char"}), "");
  EXPECT_EQ(refusal({"data.tokenizer.type=huggingface",
                     "data.tokenizer.model=t.json",
                     "data.tokenizer.decoder_start_token=</s>",
                     "data.tokenizer.forced_bos_token=<s>"}),
            "");
}

TEST(TranslationConfiguration, WarnsAboutForcedBosInNonAutoregressiveDecoding) {
  const auto warnings = [](const std::string& decoder) {
    return configure({.file = "c.yaml",
                      .text = good,
                      .settings = {"data.tokenizer.type=huggingface",
                                   "data.tokenizer.model=t.json",
                                   "data.tokenizer.forced_bos_token=<s>",
                                   "model.decoder_type=" + decoder}})
        ->table.warnings()
        .size();
  };
  EXPECT_EQ(warnings("autoregressive"), 0u);
  EXPECT_EQ(warnings("non_autoregressive"), 1u);
}

TEST(TranslationConfiguration, RejectsFamiliesThatDoNotSupportTheTask) {
  EXPECT_EQ(refusal({"model.family=decoder"}),
            "--set: model.family: decoder requires run.task: language_modeling or "
            "behavior_cloning, found translation");
  EXPECT_EQ(refusal({"run.task=language_modeling"}),
            "c.yaml:2:9: model.family: encoder_decoder requires run.task: translation, found "
            "language_modeling\n"
            "c.yaml:3:18: data.train_target requires run.task: translation, found "
            "language_modeling");
  EXPECT_EQ(refusal({"run.task=translate"}),
            "--set: run.task: expected language_modeling, translation, tagging, classification, "
            "image_generation, behavior_cloning or reinforcement_learning, found \"translate\"");
}

// Errors in the encoder's attention name the encoder's keys.
TEST(TranslationConfiguration, SupportsSeparateEncoderAttention) {
  EXPECT_EQ(refusal({"model.attention.encoder_layer_types=[linformer]"}), "");
  EXPECT_EQ(refusal({"model.attention.encoder_layer_types=[nearby]", "model.num_hidden_layers=2"})
                .substr(0, 70),
            "--set: model.attention.encoder_layer_types: expected one of full, slid");
  EXPECT_EQ(refusal({"model.attention.encoder_layer_types=[full, sliding_window, sliding_window]",
                     "model.num_encoder_layers=2"}),
            "--set: model.attention.encoder_layer_types: expected at most "
            "model.num_encoder_layers = 2 elements, found 3");
  EXPECT_EQ(refusal({"model.attention.encoder_layer_types=[linformer]",
                     "model.position_embedding_type=relative"}),
            "--set: model.position_embedding_type: relative does not support linformer in "
            "model.attention.encoder_layer_types; set it to sinusoidal or learned");
  EXPECT_EQ(refusal({"model.attention.encoder_layer_types=[linformer]",
                     "model.attention.scale_attn_weights=false"}),
            "--set: model.attention.scale_attn_weights does not support linformer in "
            "model.attention.encoder_layer_types; use full, sliding_window or another masked type");
  // An error that affects both stacks is reported once.
  const std::string of_both = refusal({"model.attention.layer_types=[nearby]"});
  EXPECT_EQ(std::ranges::count(of_both, '\n'), 0) << of_both;
  const std::string alone = refusal({"model.attention.layer_types=[linformer]"});
  EXPECT_EQ(std::ranges::count(alone, '\n'), 0) << alone;
  // Decoding requires a KV cache in the decoder.
  EXPECT_EQ(
      refusal({"model.attention.layer_types=[routing]"}),
      "--set: model.attention.layer_types: routing does not support a KV cache, which decoding "
      "requires; use it in model.attention.encoder_layer_types");
  // Keys of attention types that only the encoder has cause no warning.
  const auto configuration =
      configure({.file = "c.yaml",
                 .text = good,
                 .settings = {"model.attention.encoder_layer_types=[linformer]",
                              "model.attention.linformer.projected_length=64"}});
  EXPECT_EQ(configuration->table.warnings(), std::vector<std::string>{});
}

TEST(TranslationConfiguration, RequiresSourceAndTarget) {
  const char* without =
      "run: {output_dir: r, task: translation}\n"
      "model: {family: encoder_decoder}\n"
      "data: {train: a}\n";
  EXPECT_EQ(refusal({}, without),
            "c.yaml:3:8: data.train requires data.train_target with run.task: translation");
  EXPECT_EQ(refusal({"data.validation=c"}),
            "--set: data.validation requires data.validation_target with run.task: translation");
  EXPECT_EQ(refusal({"data.test_target=c"}),
            "--set: data.test_target requires data.test with run.task: translation");
}

TEST(TranslationConfiguration, RejectsCharTokenizer) {
  EXPECT_EQ(refusal({"data.tokenizer.type=char"}),
            "--set: data.tokenizer.type: run.task: translation does not support char; set it to "
            "sentencepiece (data.tokenizer.model_type: char) or byte");
}

TEST(TranslationConfiguration, WarnsAboutSubwordSamplingWithoutUnigramModel) {
  const auto warned = [](std::vector<std::string> settings) {
    settings.push_back("data.tokenizer.sampling_alpha=0.1");
    return configure({.file = "c.yaml", .text = good, .settings = settings})->table.warnings();
  };
  EXPECT_EQ(warned({"data.tokenizer.type=sentencepiece"}).size(), 0u);
  EXPECT_EQ(warned({"data.tokenizer.type=sentencepiece",
                    "data.tokenizer.model_type=bpe",
                    "data.tokenizer.model=m.model"})
                .size(),
            1u);  // the model file determines data.tokenizer.model_type
  for (const auto& [setting, reason] :
       {std::pair("data.tokenizer.type=byte", "data.tokenizer.type is byte"),
        std::pair("data.tokenizer.model_type=bpe", "data.tokenizer.model_type is not unigram")}) {
    const auto found = warned({"data.tokenizer.type=sentencepiece", setting});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find(reason), std::string::npos) << found[0];
  }
}

TEST(TranslationConfiguration, RejectsIncompatibleStacks) {
  EXPECT_EQ(refusal({"model.cross_attention.layer_mapping=same", "model.num_encoder_layers=3"}),
            "--set: model.cross_attention.layer_mapping: same requires equal numbers of encoder "
            "and decoder layers, found 3 and 6");
  EXPECT_EQ(refusal({"memory.recompute_granularity=full",
                     "memory.recompute_num_layers=2",
                     "model.num_encoder_layers=1"}),
            "--set: memory.recompute_num_layers: expected at most model.num_encoder_layers = 1, "
            "found 2");
  EXPECT_EQ(refusal({"model.attention.layer_types=lsh"}),
            "--set: model.attention.layer_types: lsh does not support the padded batches of this "
            "family");
}

// Configurations that a run writes list every key, so an empty value means unset.
TEST(TranslationConfiguration, GuidedAttentionAndAlignmentsRequireEachOther) {
  EXPECT_EQ(refusal({"data.train_alignments="}), "");
  EXPECT_EQ(refusal({"data.train_alignments=links.txt"}),
            "--set: data.train_alignments: links.txt requires model.guided_attention.type: "
            "alignment, found none");
  EXPECT_EQ(refusal({"model.guided_attention.type=alignment"}),
            "--set: model.guided_attention.type: alignment requires data.train_alignments");
  EXPECT_EQ(refusal({"model.guided_attention.type=alignment", "data.train_alignments=links.txt"}),
            "");
}

// The messages name data.max_length, which limits the sequence length.
TEST(TranslationConfiguration, RejectsAttentionBeyondMaxLength) {
  EXPECT_EQ(refusal({"model.attention.layer_types=strided", "data.max_length=64"}),
            "--set: model.attention.stride: 128 leaves only the query itself to strided attention: "
            "data.max_length limits a sequence to 72 positions");
  EXPECT_EQ(refusal({"model.attention.layer_types=global_local",
                     "model.attention.global_local.global_positions=[0, 90]",
                     "data.max_length=64"}),
            "--set: model.attention.global_local.global_positions: position 90 is out of range: "
            "data.max_length limits a sequence to 72 positions");
  EXPECT_EQ(refusal({"model.attention.layer_types=strided", "data.max_length=200"}), "");
}

TEST(CheckLines, RejectsIncompatibleOptions) {
  const auto diag = [](const std::string& task, const std::function<void(LineArguments&)>& change) {
    RunConfig settings;
    settings.task = task;
    LineArguments arguments;
    arguments.input = "lines.txt";
    change(arguments);
    try {
      check_lines(arguments, settings);
    } catch (const ConfigurationError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(diag("translation", [](LineArguments&) {}), "");
  EXPECT_EQ(diag("translation",
                 [](LineArguments& arguments) {
                   arguments.decoding.options.beam = 2;
                   arguments.decoding.options.n_best = 3;
                 }),
            "longspan generate: --n-best: expected at most --beam 2, found 3");
  EXPECT_EQ(diag("translation",
                 [](LineArguments& arguments) {
                   arguments.decoding.sample = true;
                   arguments.decoding.options.beam = 2;
                   arguments.decoding.options.n_best = 3;
                 }),
            "");
  EXPECT_EQ(diag("translation", [](LineArguments& arguments) { arguments.input = ""; }),
            "longspan generate: run.task: translation requires --input FILE, or --input - for "
            "standard input");
  EXPECT_EQ(diag("language_modeling", [](LineArguments&) {}),
            "longspan generate: --input does not support run.task: language_modeling; use --prompt "
            "or --prompt-file");
}

}  // namespace
}  // namespace longspan::translation_configuration_test
