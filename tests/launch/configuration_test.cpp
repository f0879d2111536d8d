#include "launch/configuration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace longspan::configuration_test {
namespace {

constexpr const char* good =
    "run:\n"
    "  directory: runs/test\n"
    "model:\n"
    "  family: decoder\n"
    "data:\n"
    "  train: book.txt\n";

std::unique_ptr<Configuration> from(const std::string& text, std::vector<std::string> set = {}) {
  return configure({"c.yaml", text, std::move(set)});
}

std::string error_of(const std::string& text, std::vector<std::string> set = {}) {
  try {
    from(text, std::move(set));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Configuration, WhatIsNotGivenHasItsDefault) {
  const auto configuration = from(good);
  EXPECT_EQ(configuration->family, "decoder");
  EXPECT_EQ(configuration->run.directory, "runs/test");
  EXPECT_EQ(configuration->run.seed, RunOptions().seed);
  EXPECT_EQ(configuration->precision.compute, DType::f32);
  EXPECT_TRUE(configuration->body);
  EXPECT_FALSE(configuration->table.is_given("run.seed"));
  EXPECT_TRUE(configuration->table.is_default("run.seed"));
  EXPECT_EQ(configuration->table.place("model.family"), "c.yaml:4:3");
}

TEST(Configuration, TheCommandLineWinsOverTheFile) {
  const auto configuration = from(good, {"data.train=other.txt", "run.seed=7", "run.seed=8"});
  EXPECT_EQ(configuration->data.train, "other.txt");
  EXPECT_EQ(configuration->run.seed, 8);
  EXPECT_EQ(configuration->table.place("data.train"), "--set");
}

TEST(Configuration, TheCommandLineMayChooseTheFamily) {
  EXPECT_EQ(from(good, {"model.family=transformer_xl"})->family, "transformer_xl");
}

TEST(Configuration, EachBadFileHasItsMessages) {
  const std::string head(good);
  const std::pair<std::string, std::string> cases[] = {
      {"", "c.yaml:1:1: the file is empty; allowed: the sections of a configuration"},
      {"- run\n", "c.yaml:1:1: found a list; allowed: sections with keys"},
      {"run: {directory: r}\nmodel: {family: decoder\n",
       "c.yaml:3:1: not valid YAML: a { is not closed"},
      {"run:\n\tdirectory: r\n", "c.yaml:2:1: found a tab; allowed: indentation with spaces"},
      {"model:\n  family: decoder\n",
       "c.yaml: run.directory must be given; allowed: a path, not empty\n"
       "c.yaml: data.train must be given; allowed: a path, or a list of paths or of {path: PATH, "
       "weight: NUMBER}, not empty"},
      {head + "  batch: 1.5\n",
       "c.yaml:7:3: data.batch: found \"1.5\" (it is not a whole number); allowed: an integer, 1 "
       "to 16777216"},
      {head + "  batch: 0x10\n",
       "c.yaml:7:3: data.batch: found \"0x10\"; allowed: an integer, 1 to 16777216"},
      {head + "  batch: 010\n",
       "c.yaml:7:3: data.batch: found \"010\" (leading zeros are not allowed); allowed: an "
       "integer, 1 to 16777216"},
      {head + "  batch: 99999999999999999999\n",
       "c.yaml:7:3: data.batch: found \"99999999999999999999\" (it does not fit in 64 bits); "
       "allowed: an integer, 1 to 16777216"},
      {head + "  batch:\n",
       "c.yaml:7:3: data.batch: found no value; allowed: an integer, 1 to 16777216"},
      {head + "  batch: {}\n",
       "c.yaml:7:3: data.batch: found a section; allowed: an integer, 1 to 16777216"},
      {head + "  batch: [1, 2]\n",
       "c.yaml:7:3: data.batch: found the list [1, 2]; allowed: an integer, 1 to 16777216"},
      {head + "  unknown: yes\n",
       "c.yaml:7:3: data.unknown: found \"yes\"; allowed: true or false"},
      {head + "  tokenizer: byte\n",
       "c.yaml:7:3: data.tokenizer: found \"byte\"; allowed: bytes, characters, sentencepiece, "
       "tokenizer_json or ids; did you mean \"bytes\"?"},
      {head + "  bacth: 4\n", "c.yaml:7:3: data.bacth is not a key; did you mean \"data.batch\"?"},
      {head + "precison:\n  compute: bf16\n",
       "c.yaml:8:3: precison.compute is not a key; did you mean \"precision.compute\"?"},
      {head + "precision: bf16\n",
       "c.yaml:7:1: precision is a section: found \"bf16\"; allowed: keys below it"},
      {head + "precision:\n  compute: fp16\n",
       "c.yaml:8:3: precision.compute: found \"fp16\"; allowed: float64, float32, bf16 or f16; did "
       "you mean \"f16\"?"},
      {head + "  segment: 8192\nprecision:\n  compute: f16\n  loss_scale: 2\n",
       "c.yaml:10:3: precision.loss_scale: found 2; with 65536 tokens a step (data.batch x "
       "data.segment) all gradients underflow f16; wanted at least 4"},
      {head + "  segment: 1022\nparallel:\n  context: 2\n",
       "c.yaml:7:3: data.segment is 1022, which does not divide by 2 x parallel.context = 4; a "
       "context rank reads a piece from either end of a segment"},
      {head + "parallel:\n  zero: 3\n",
       "c.yaml:8:3: parallel.zero: found \"3\"; allowed: an integer, 0 to 2"},
      {head + "parallel:\n  data: 3\n",
       "c.yaml:8:3: data.batch is 8, which does not divide by parallel.data = 3; a data rank takes "
       "whole streams"},
      {head + "run:\n  seed: 4\n", "c.yaml:7:1: run is given twice, first at c.yaml:1:1"},
      {head + "  train: again.txt\n", "c.yaml:7:3: data.train is given twice, first at c.yaml:6:3"},
      {head + "checkpoint:\n  keep: &k 2\nmetrics:\n  every: *k\n",
       "c.yaml:8:9: found an anchor; allowed: plain values\n"
       "c.yaml:10:10: found an alias; allowed: the value written out"},
      {head + "data.batch: 4\n",
       "c.yaml:7:1: found the key \"data.batch\"; allowed: sections nested, not joined by dots"},
      {head + "run\n",
       "c.yaml:7:1: not valid YAML: a line is not indented like those above it, or more follows a "
       "value"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
}

// What a model of these sections could not be built with is told before one is.
TEST(Configuration, WhatNoModelCanBeBuiltWithIsToldWithItsPlace) {
  const auto decoder = [](const std::string& model, const std::string& rest = "") {
    return error_of(
        fmt::format("run: {{directory: r}}\n"
                    "model:\n  family: decoder\n{}"
                    "data: {{train: t}}\n{}",
                    model,
                    rest));
  };
  EXPECT_EQ(decoder("  positions: learned\n  longest: 128\n"),
            "c.yaml:5:3: data.segment is 256, longer than model.longest = 128");
  EXPECT_EQ(
      decoder("  positions: relative\n  attention: [causal, lsh]\n"),
      "c.yaml:4:3: model.positions: found relative with lsh in model.attention, which knows no "
      "distances; set it to sinusoidal or learned");
  EXPECT_EQ(decoder("  positions: relative_bias\n  relative_reach: 16\n"),
            "c.yaml:5:3: model.relative_reach is 16 with model.relative_buckets = 32, whose nearer "
            "half have one distance each; set it to more than 16 (T5: 128)");
  EXPECT_EQ(decoder("  positions: relative_bias\n  relative_buckets: 7\n"),
            "c.yaml:5:3: model.relative_buckets is 7, wanted an even number");
  EXPECT_EQ(
      decoder("  positions: relative_bias\n  relative_reach: 128\n  attention: [linear]\n"),
      "c.yaml:4:3: model.positions: found relative_bias with linear in model.attention, which "
      "knows no distances; set it to sinusoidal or learned");
  EXPECT_EQ(
      decoder("  score_scale: none\n  attention: [causal, linear]\n"),
      "c.yaml:4:3: model.score_scale is set with linear in model.attention, which has no such "
      "softmax; causal, local and the other kinds that are a mask can");
  EXPECT_EQ(decoder("  score_scale: none\n  span: adaptive\n"),
            "c.yaml:5:3: model.span goes with no model.score_scale; set one of them otherwise");
  EXPECT_EQ(
      decoder("  logit_scale: width\n  tied_embeddings: false\n"),
      "c.yaml:4:3: model.logit_scale is width with model.tied_embeddings: false, whose output "
      "layer has a table of its own; set model.logit_scale to none");
  EXPECT_EQ(decoder("  span: adaptive\n  attention: [causal, lsh]\n"),
            "c.yaml:4:3: model.span: found adaptive with lsh in model.attention, which knows no "
            "distances; set it to none");
  EXPECT_EQ(decoder("  heads: 8\n", "parallel: {tensor: 3}\n"),
            "c.yaml:4:3: model.heads is 8, which does not divide by parallel.tensor = 3");
  EXPECT_EQ(decoder("", "parallel: {tensor: 3}\n"),
            "c.yaml:5:12: model.heads is 8, which does not divide by parallel.tensor = 3");
  EXPECT_EQ(
      decoder("  attention: [causal, lsh]\n  heads: 2\n", "parallel:\n  tensor: 2\n  context: 2\n"),
      "c.yaml:5:3: model.heads is 2: attention lsh divides heads over tensor and context "
      "ranks, of which there are 2 x 2");
  EXPECT_EQ(decoder("  heads: 2\n", "parallel:\n  tensor: 2\n  context: 2\n"), "no error");
  EXPECT_EQ(decoder("  attention: [lsh]\n  lsh_self_score: -5e4\n"),
            "c.yaml:5:3: model.lsh_self_score is -50000: sums in 32 bits lose the gradient of a "
            "token that sees only itself below -10000");
  EXPECT_EQ(
      decoder("  attention: [lsh]\n  lsh_self_score: -5e4\n", "precision: {compute: float64}\n"),
      "no error");
  EXPECT_EQ(decoder("  lsh_self_score: -5e4\n"), "no error");
  EXPECT_EQ(decoder("  attention: [strided]\n  attention_stride: 512\n"),
            "c.yaml:5:3: model.attention_stride is 512, but data.segment is 256: strided attention "
            "would see nothing but the query itself");
  EXPECT_EQ(decoder("  attention: [global]\n  attention_window: [3]\n  attention_global: [900]\n"),
            "c.yaml:6:3: model.attention_global has position 900, but data.segment is 256");
  EXPECT_EQ(
      decoder("  layers: 4\n", "memory:\n  recompute: every 5\n"),
      "c.yaml:7:3: memory.recompute is every 5, but model.layers is 4; set it to at most that "
      "many");
  EXPECT_EQ(decoder("  residual: reversible\n", "memory:\n  recompute: layer\n"),
            "c.yaml:7:3: memory.recompute is layer, but model.residual: reversible computes every "
            "layer again anyway; set memory.recompute to none");
  EXPECT_EQ(decoder("", "memory: {reconstruction_check_every: 3}\n"),
            "c.yaml:5:10: memory.reconstruction_check_every is 3, but only model.residual: "
            "reversible rebuilds anything; set it to 0");
  EXPECT_EQ(decoder("", "training: {accumulation: 3}\n"),
            "c.yaml:5:12: training.accumulation is 3, which does not divide data.batch = 8");
  EXPECT_EQ(
      decoder("", "training: {accumulation: 8}\nparallel: {data: 2}\n"),
      "c.yaml:5:12: training.accumulation is 8, which does not divide the 4 streams of a data "
      "rank (data.batch 8 over 2 data ranks)");
}

TEST(Configuration, WhatDependsOnTheSegmentKnowsOfAMemory) {
  const auto problem = [](const std::string& family) {
    return error_of(
        good,
        {"model.family=" + family, "model.attention=[dilated]", "model.attention_dilation=300"});
  };
  EXPECT_EQ(problem("transformer_xl"), "no error");
  EXPECT_EQ(problem("decoder"),
            "--set: model.attention_dilation is 300, but data.segment is 256: dilated attention "
            "would see nothing but the query itself");
  EXPECT_EQ(error_of(good, {"model.family=transformer_xl", "model.attention=[lsh]"}),
            "--set: model.attention has lsh, which sorts the tokens of a segment: it cannot be "
            "with a memory of earlier segments");
}

TEST(Configuration, AMistakeHidesNoOther) {
  EXPECT_EQ(error_of(good,
                     {"data.segment=abc",
                      "model.attention=[lsh/local]",
                      "parallel.tensor=3",
                      "parallel.context=5",
                      "memory.recompute=every 7"}),
            "--set: data.segment: found \"abc\"; allowed: an integer, 1 to 68719476736\n"
            "--set: model.attention has lsh in \"lsh/local\": queries and keys are one projection "
            "there, so a layer has it alone\n"
            "--set: model.heads is 8, which does not divide by parallel.tensor = 3\n"
            "--set: memory.recompute is every 7, but model.layers is 6; set it to at most that "
            "many");
}

// Of a training's file, for a job that only reads what it saved.
TEST(Configuration, OfAnotherJobTheLayoutDoesNotCount) {
  const std::string saved = std::string(good) + "parallel: {tensor: 2, context: 2, data: 3}\n";
  const auto read = [&](std::vector<std::string> set) {
    return configure(
        {.file = "c.yaml", .text = saved, .settings = std::move(set), .of_another_job = true});
  };
  EXPECT_EQ(read({})->parallel.tensor, 1);
  EXPECT_EQ(read({})->parallel.context, 1);
  EXPECT_FALSE(read({})->parallel.data);
  EXPECT_EQ(read({"parallel.context=4"})->parallel.context, 4);
  EXPECT_THROW(read({"parallel.tensor=3"}), ConfigurationError);
  const auto lsh = read({"model.attention=[lsh]", "model.heads=2", "parallel.tensor=2"});
  EXPECT_EQ(lsh->parallel.tensor, 2);
}

TEST(Configuration, AllMistakesOfFileAndCommandLineComeAtOnce) {
  EXPECT_EQ(
      error_of(std::string(good) + "  batch: none\n  batch: 4\nzebra: 1\n",
               {"run.sead=1", "run.seed", "run.threads=-1"}),
      "c.yaml:7:3: data.batch: found \"none\"; allowed: an integer, 1 to 16777216\n"
      "c.yaml:8:3: data.batch is given twice, first at c.yaml:7:3\n"
      "c.yaml:9:1: zebra is not a key; the sections are run, model, data, reinforcement, training, "
      "parallel, memory, precision, checkpoint, metrics\n"
      "--set: found \"run.seed\"; allowed: key=value\n"
      "--set: run.sead is not a key; did you mean \"run.seed\"?\n"
      "--set: run.threads: found \"-1\"; allowed: an integer, 0 to 4096");
}

TEST(Configuration, AKeyOfAnotherFamilySaysWhoseItIs) {
  EXPECT_EQ(error_of(good, {"model.same_length=true"}),
            "--set: model.same_length is a key of family transformer_xl, not of decoder");
}

TEST(Configuration, TheResolvedTextReadsBackToTheSameValues) {
  std::mt19937_64 random(5);
  for (const char* family : {"decoder", "transformer_xl"}) {
    for (int round = 0; round < 50; ++round) {
      std::string path = "p";
      static const std::vector<std::string> pieces = {
          "a",       " ",    ":",  "#",        "\"",
          "'",       "\\",   "\n", "\t",       "\x01",
          "\x7f",    "-",    "{",  "]",        ",",
          "&",       "*",    "!",  "%",        "@",
          "~",       "null", "1",  "\xc3\xa9", "\xe2\x80\xa8",
          "\xc2\x85"};
      for (int i = 0; i < 12; ++i) path += pieces[random() % pieces.size()];
      const double limit = std::ldexp(static_cast<double>(random() >> 11), -45) + 1e-9;
      const auto first = from(
          good, {fmt::format("model.family={}", family), fmt::format("run.time_limit={}", limit)});
      first->data.train = path;
      const std::string resolved = first->table.resolved();
      const auto second = from(resolved);
      EXPECT_EQ(second->data.train, path);
      EXPECT_EQ(second->run.time_limit, limit);
      const auto before = first->table.values();
      const auto after = second->table.values();
      ASSERT_EQ(before.size(), after.size());
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(before[i].key, after[i].key);
        EXPECT_EQ(before[i].text, after[i].text);
      }
      const ConfigurationChange change = compare(*second, resolved);
      EXPECT_TRUE(change.differences.empty()) << change.differences.front();
    }
  }
}

TEST(Configuration, AChangeSaysWhichKeysDifferAndWhichTheWeightsForbid) {
  const std::string saved = from(good, {"model.layers=3"})->table.resolved();
  const auto now = from(good, {"model.layers=4", "run.seed=9"});
  const ConfigurationChange change = compare(*now, saved + "zebra:\n  stripes: 7\n");
  EXPECT_EQ(
      change.refused,
      std::vector<std::string>{"model.layers: the checkpoint has 3, the configuration 4 (--set)"});
  EXPECT_EQ(change.differences,
            (std::vector<std::string>{
                "run.seed: the checkpoint has 1, the configuration 9 (--set)",
                "model.layers: the checkpoint has 3, the configuration 4 (--set)",
                "zebra.stripes: the checkpoint has 7, the configuration no such key"}));
}

// A layer of lsh has no projection of keys.
TEST(Configuration, LayersThatBecomeLshAreAnotherModel) {
  const auto refused = [](const std::string& before, const std::string& after) {
    const auto saved = from(good, {"model.attention=" + before})->table.resolved();
    return compare(*from(good, {"model.attention=" + after}), saved).refused;
  };
  EXPECT_TRUE(refused("[causal]", "[local]").empty());
  EXPECT_TRUE(refused("[lsh]", "[lsh, lsh]").empty());
  EXPECT_TRUE(refused("[lsh, causal]", "[lsh, local]").empty());
  for (const auto& [before, after] :
       {std::pair("[causal]", "[lsh]"), {"[lsh]", "[causal]"}, {"[lsh, causal]", "[causal, lsh]"}})
    EXPECT_EQ(refused(before, after),
              std::vector<std::string>{fmt::format(
                  "model.attention: the checkpoint has {}, the configuration {} (--set)",
                  before,
                  after)});
}

TEST(Configuration, ProjectionsOfGlobalPositionsAreAnotherModel) {
  const auto refused = [](const std::string& before, const std::string& after, bool at_first) {
    const auto with = [](const std::string& kinds, bool projections) {
      return from(good,
                  {"model.attention=" + kinds,
                   fmt::format("model.attention_global_projections={}", projections)});
    };
    return compare(*with(after, true), with(before, at_first)->table.resolved()).refused;
  };
  EXPECT_TRUE(refused("[global, causal]", "[global, local]", true).empty());
  EXPECT_EQ(
      refused("[global]", "[global]", false),
      std::vector<std::string>{"model.attention_global_projections: the checkpoint has false, "
                               "the configuration true (--set)"});
  EXPECT_EQ(refused("[global, causal]", "[causal, global]", true),
            std::vector<std::string>{"model.attention: the checkpoint has [global, causal], the "
                                     "configuration [causal, global] (--set)"});
}

TEST(Configuration, HintsKnowTheFieldsNames) {
  const auto hint = [](const std::string& setting) {
    const std::string error = error_of(good, {setting});
    return error.substr(error.find(';') + 2);
  };
  for (const auto& [setting, key] :
       {std::pair("training.lr=1", "training.learning_rate"),
        {"lr=1", "training.learning_rate"},
        {"learning_rate=1", "training.learning_rate"},
        {"model.optimizer.lr=1", "training.learning_rate"},
        {"training.batch_size=1", "data.batch"},
        {"training.per_device_train_batch_size=1", "data.batch"},
        {"model.hidden_size=1", "model.width"},
        {"model.hiddenSize=1", "model.width"},
        {"model.hiden_size=1", "model.width"},
        {"model.n_embd=1", "model.width"},
        {"model.num_hidden_layers=1", "model.layers"},
        {"training.gradient_accumulation=1", "training.accumulation"},
        {"training.gradient_accumulation_steps=1", "training.accumulation"},
        {"training.max_steps=1", "training.steps"},
        {"training.eps=1", "training.optimizer.epsilon"},
        {"model.norm.eps=1", "model.norm_epsilon"},
        {"model.tie_word_embeddings=true", "model.tied_embeddings"},
        {"parallel.tensor_parallel_size=1", "parallel.tensor"},
        {"checkpoint.save_total_limit=1", "checkpoint.keep"},
        {"metrics.logging_steps=1", "metrics.every"}})
    EXPECT_TRUE(hint(setting).ends_with(fmt::format("did you mean \"{}\"?", key)))
        << setting << ": " << hint(setting);
  EXPECT_NE(hint("model.use_flash_attention=true").find("as FlashAttention does"),
            std::string::npos);
  EXPECT_NE(hint("training.nucleus=1").find("longspan generate --top-p"), std::string::npos);
  for (const auto& [setting, value] : {std::pair("precision.compute=bfloat16", "bf16"),
                                       {"precision.compute=fp16", "f16"},
                                       {"model.norm_kind=rmsnorm", "rms"},
                                       {"run.task=causal_lm", "language_model"},
                                       {"training.schedule=noam", "inverse_sqrt"},
                                       {"run.device=gpu", "cuda"}})
    EXPECT_TRUE(hint(setting).ends_with(fmt::format("did you mean \"{}\"?", value))) << setting;
  EXPECT_TRUE(
      hint("model.activation=swiglu")
          .ends_with("SwiGLU is model.feed_forward_kind: gated with model.activation: silu"));
}

TEST(Configuration, TextOfAProgramHasNoLines) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      ConfigurationText source = {"configuration", text, {}};
      source.has_lines = false;
      configure(source);
    } catch (const ConfigurationError& problem) {
      return problem.what();
    }
    return "no error";
  };
  EXPECT_EQ(error(std::string(good) + "  batcch: 3\n"),
            "configuration: data.batcch is not a key; did you mean \"data.batch\"?");
}

TEST(Configuration, WarnsOfKeysThatOthersLeaveWithoutEffect) {
  const auto warned = [](const std::string& setting, std::vector<std::string> set) {
    set.push_back(setting);
    const std::string begin =
        fmt::format("--set: {} is set, but ", setting.substr(0, setting.find('=')));
    return std::ranges::any_of(
        from(good, std::move(set))->table.warnings(),
        [&](const std::string& warning) { return warning.starts_with(begin); });
  };
  const std::string decoder = "model.family=decoder";
  for (const char* const kind : {"rotary", "sinusoidal", "alibi", "relative"})
    EXPECT_TRUE(warned("model.longest=512", {decoder, fmt::format("model.positions={}", kind)}))
        << kind;
  EXPECT_FALSE(warned("model.longest=512", {decoder, "model.positions=learned"}));
  struct Case {
    std::string setting;
    std::vector<std::string> idle, read;
  };
  const std::vector<std::string> pairs = {"run.task=translation",
                                          "model.family=encoder_decoder",
                                          "data.train_target=b.txt",
                                          "training.sampling=parallel"};
  const auto with = [](std::vector<std::string> set, const std::string& more) {
    set.push_back(more);
    return set;
  };
  const std::vector<Case> cases = {
      {"training.end_learning_rate=1e-5", {"training.schedule=constant"}, {}},
      {"training.schedule_steps=10", {"training.schedule=inverse_sqrt"}, {}},
      {"training.schedule_end=restart", {}, {"training.schedule_steps=10"}},
      {"training.warmup_learning_rate=1e-5", {}, {"training.warmup=10"}},
      {"training.validation_every=5", {}, {"data.validation=a.txt"}},
      {"training.validation_batches=5", {}, {"data.validation=a.txt"}},
      {"training.label_smoothing_over=wrong_classes", {}, {"training.label_smoothing=0.1"}},
      {"training.sampling_passes=3", {}, pairs},
      {"training.sampling_warmup=3", with(pairs, "training.sampling_schedule=linear"), pairs},
      {"training.sampling_least=0.1", pairs, with(pairs, "training.sampling_schedule=linear")},
      {"data.unknown=true", {}, {"data.tokenizer=characters"}},
      {"precision.tf32=true", {"run.device=cpu"}, {}}};
  for (const Case& each : cases) {
    EXPECT_TRUE(warned(each.setting, each.idle)) << each.setting;
    EXPECT_FALSE(warned(each.setting, each.read)) << each.setting;
  }
  EXPECT_TRUE(warned("data.train_alignments=a.txt", {}));
  EXPECT_TRUE(warned("data.documents=line", {"run.task=classification", "model.family=encoder"}));
  EXPECT_TRUE(warned("model.tag_readout=crf", {"run.task=classification", "model.family=encoder"}));
  EXPECT_FALSE(warned("model.tag_readout=crf", {"run.task=tagging", "model.family=encoder"}));
  EXPECT_TRUE(warned("model.pooling=mean", {"run.task=tagging", "model.family=encoder"}));
}

TEST(Configuration, WhatNoLayerReadsIsAWarning) {
  const std::vector<std::string> both = {
      "c.yaml:5:3: model.attention_window is set, but no layer of model.attention has local, "
      "dilated, local_1d or global",
      "--set: model.lsh_rounds is set, but no layer of model.attention has lsh"};
  std::string text(good);
  text.insert(text.find("data:"), "  attention_window: [255]\n");
  EXPECT_EQ(from(text, {"model.lsh_rounds=4"})->table.warnings(), both);
  const auto warnings = [](std::vector<std::string> set) {
    return from(good, std::move(set))->table.warnings().size();
  };
  EXPECT_EQ(warnings({}), 0u);
  EXPECT_EQ(warnings({"model.attention=[local]", "model.attention_global=[0, 3]"}), 1u);
  EXPECT_EQ(warnings({"model.lsh_rounds=2", "model.attention_random=0"}), 0u);
  for (const std::string kind : {"linear", "performer", "random_features"})
    EXPECT_EQ(warnings({"model.attention=[" + kind + "]", "model.attention_dropout=0.1"}), 1u)
        << kind;
  EXPECT_EQ(warnings({"model.attention=[linear, causal]", "model.attention_dropout=0.1"}), 0u);
  EXPECT_EQ(warnings({"model.attention=[lsh]", "model.lsh_rounds=4"}), 0u);
  const std::string of_synthesizer = "model.attention=[synthesizer]";
  for (const auto& [key, scores] : {std::pair("model.synthesizer_hidden=7", "dense"),
                                    {"model.synthesizer_rank=7", "factorised_random"}}) {
    EXPECT_EQ(warnings({key}), 1u);
    EXPECT_EQ(
        from(good, {of_synthesizer, "model.synthesizer=[random]", key})->table.warnings(),
        std::vector<std::string>{fmt::format("--set: {} is set, but model.synthesizer has no {}",
                                             std::string(key).substr(0, std::string(key).find('=')),
                                             scores)});
    EXPECT_EQ(warnings({of_synthesizer, fmt::format("model.synthesizer=[{}]", scores), key}), 0u);
  }
  const auto of_decoder = [&](const std::string& positions) {
    return warnings(
        {"model.family=decoder", "model.relative_reach=8", "model.positions=" + positions});
  };
  EXPECT_EQ(of_decoder("sinusoidal"), 1u);
  EXPECT_EQ(of_decoder("relative"), 0u);
  EXPECT_EQ(of_decoder("alibi"), 1u);
  EXPECT_EQ(warnings({"model.family=decoder", "model.relative_buckets=8"}), 1u);
  EXPECT_EQ(
      warnings(
          {"model.family=decoder", "model.relative_buckets=8", "model.positions=relative_bias"}),
      0u);
}

TEST(Configuration, AWindowTooWideToCountIsRefused) {
  EXPECT_NE(error_of(good, {"model.attention_window=[4000000000000000000]"}), "no error");
  EXPECT_NE(error_of(good, {"model.attention_dilation=4000000000000000000"}), "no error");
  EXPECT_NE(error_of(good, {"model.attention_summary_groups=4000000000000000000"}), "no error");
}

}  // namespace
}  // namespace longspan::configuration_test
