#include "launch/cli/configuration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace longspan::configuration_test {
namespace {

constexpr const char* good =
    "run:\n"
    "  output_dir: runs/test\n"
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

TEST(Configuration, UsesDefaultsForUnsetKeys) {
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

TEST(Configuration, CommandLineOverridesFile) {
  const auto configuration = from(good, {"data.train=other.txt", "run.seed=7", "run.seed=8"});
  EXPECT_EQ(configuration->data.train, "other.txt");
  EXPECT_EQ(configuration->run.seed, 8);
  EXPECT_EQ(configuration->table.place("data.train"), "--set");
}

TEST(Configuration, CommandLineSelectsFamily) {
  EXPECT_EQ(from(good, {"model.family=transformer_xl"})->family, "transformer_xl");
}

TEST(Configuration, ReportsErrorsWithLocation) {
  const std::string head(good);
  const std::pair<std::string, std::string> cases[] = {
      {"", "c.yaml:1:1: expected the sections of a configuration, found an empty file"},
      {"- run\n", "c.yaml:1:1: expected sections with keys, found a list"},
      {"run: {output_dir: r}\nmodel: {family: decoder\n", "c.yaml:3:1: invalid YAML: unclosed {"},
      {"run:\n\toutput_dir: r\n", "c.yaml:2:1: expected indentation with spaces, found a tab"},
      {"model:\n  family: decoder\n",
       "c.yaml: run.output_dir: missing required key; set it to a path, not empty\n"
       "c.yaml: data.train: missing required key; set it to a path, or a list of paths or of "
       "{path: PATH, weight: NUMBER}, not empty"},
      {head + "  global_batch_size: 1.5\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found \"1.5\" (not "
       "an integer)"},
      {head + "  global_batch_size: 0x10\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found \"0x10\""},
      {head + "  global_batch_size: 010\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found \"010\" "
       "(leading zeros are not allowed)"},
      {head + "  global_batch_size: 99999999999999999999\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found "
       "\"99999999999999999999\" (out of range for 64 bits)"},
      {head + "  global_batch_size:\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found no value"},
      {head + "  global_batch_size: {}\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found a section"},
      {head + "  global_batch_size: [1, 2]\n",
       "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found the list [1, "
       "2]"},
      {head + "  tokenizer:\n    allow_unk: yes\n",
       "c.yaml:8:5: data.tokenizer.allow_unk: expected true or false, found \"yes\""},
      {head + "  documents:\n    end_token: true\n    sample_by: line\n",
       "c.yaml:8:5: data.documents.end_token: expected a token or its id, found true; set it to a "
       "token, such as \"<|endoftext|>\", or to none"},
      {head + "  documents:\n    end_token: \"256\"\n    sample_by: line\n",
       "c.yaml:8:5: data.documents.end_token: expected an id from 0 to 255 (data.tokenizer.type: "
       "byte does not support token names), found \"256\""},
      {head + "  documents:\n    end_token: <eod>\n    sample_by: line\n  tokenizer:\n    type: "
              "char\n",
       "c.yaml:8:5: data.documents.end_token: expected an id (data.tokenizer.type: char does not "
       "support token names), found \"<eod>\""},
      {head + "  tokenizer:\n    type: bytes\n",
       "c.yaml:8:5: data.tokenizer.type: expected byte, char, sentencepiece, huggingface or none, "
       "found \"bytes\"; did you mean \"byte\"?"},
      {head + "  global_bacth_size: 4\n",
       "c.yaml:7:3: data.global_bacth_size: unknown key; did you mean \"data.global_batch_size\"?"},
      {head + "precison:\n  compute_dtype: bfloat16\n",
       "c.yaml:8:3: precison.compute_dtype: unknown key; did you mean "
       "\"precision.compute_dtype\"?"},
      {head + "precision: bfloat16\n",
       "c.yaml:7:1: precision: expected a section, found \"bfloat16\"; did you mean "
       "\"precision.compute_dtype\"?"},
      {head + "precision:\n  compute_dtype: fp16\n",
       "c.yaml:8:3: precision.compute_dtype: expected float64, float32, bfloat16 or float16, found "
       "\"fp16\"; did you mean \"float16\"?"},
      {head + "  seq_length: 8192\nprecision:\n  compute_dtype: float16\n"
              "  loss_scale:\n    init_scale: 2\n",
       "c.yaml:11:5: precision.loss_scale.init_scale: expected at least 4, found 2: with "
       "65536 tokens per step (data.global_batch_size x data.seq_length), all gradients underflow "
       "float16"},
      {head + "  seq_length: 1022\nparallel:\n  context_parallel_size: 2\n",
       "c.yaml:7:3: data.seq_length: expected a multiple of 2 x parallel.context_parallel_size = "
       "4, found 1022"},
      {head + "parallel:\n  zero_stage: 3\n",
       "c.yaml:8:3: parallel.zero_stage: expected an integer, 0 to 2, found \"3\""},
      {head + "training:\n  lr_scheduler:\n    foo: 3\n",
       "c.yaml:9:5: training.lr_scheduler.foo: unknown key; use one of the keys of "
       "training.lr_scheduler: type, min_lr, warmup_steps, warmup_init_lr, total_steps, after_end, "
       "decay_steps, decay_type"},
      {head + "  tokenizer:\n    type: bpe\n",
       "c.yaml:8:5: data.tokenizer.type: expected byte, char, sentencepiece, huggingface or none, "
       "found \"bpe\"; set data.tokenizer.type to huggingface (byte-level, tokenizer.json) or "
       "sentencepiece, and data.tokenizer.model_type to bpe"},
      {head + "parallel:\n  data_parallel_size: 3\n",
       "c.yaml:8:3: data.global_batch_size: expected a multiple of parallel.data_parallel_size = "
       "3, found 8"},
      {head + "run:\n  seed: 4\n", "c.yaml:7:1: run: duplicate key, first set at c.yaml:1:1"},
      {head + "  train: again.txt\n",
       "c.yaml:7:3: data.train: duplicate key, first set at c.yaml:6:3"},
      {head + "checkpoint:\n  keep_latest: &k 2\nmetrics:\n  log_interval: *k\n",
       "c.yaml:8:16: expected a plain value, found an anchor\n"
       "c.yaml:10:17: expected a value, found an alias"},
      {head + "data.global_batch_size: 4\n",
       "c.yaml:7:1: expected nested sections, found the dotted key \"data.global_batch_size\""},
      {head + "run\n", "c.yaml:7:1: invalid YAML: inconsistent indentation, or text after a value"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
}

// These errors are reported before a model is built.
TEST(Configuration, RejectsIncompatibleModelKeysWithLocation) {
  const auto decoder = [](const std::string& model, const std::string& rest = "") {
    return error_of(
        fmt::format("run: {{output_dir: r}}\n"
                    "model:\n  family: decoder\n{}"
                    "data: {{train: t}}\n{}",
                    model,
                    rest));
  };
  const std::string of_lsh =
      "  attention:\n    layer_types: [lsh]\n    lsh:\n      self_attention_score: -5e4\n";
  EXPECT_EQ(decoder("  position_embedding_type: learned\n  max_position_embeddings: 128\n"),
            "c.yaml:5:3: data.seq_length: expected at most model.max_position_embeddings = 128, "
            "found 256");
  EXPECT_EQ(decoder("  position_embedding_type: relative\n"
                    "  attention:\n    layer_types: [full, lsh]\n"),
            "c.yaml:4:3: model.position_embedding_type: relative does not support lsh in "
            "model.attention.layer_types; set it to sinusoidal or learned");
  EXPECT_EQ(decoder("  position_embedding_type: relative_bias\n"
                    "  relative_attention_max_distance: 16\n"),
            "c.yaml:5:3: model.relative_attention_max_distance: expected more than 16 (half of "
            "model.relative_attention_num_buckets = 32; T5: 128), found 16");
  EXPECT_EQ(decoder("  position_embedding_type: relative_bias\n"
                    "  relative_attention_num_buckets: 7\n"),
            "c.yaml:5:3: model.relative_attention_num_buckets: expected an even number, found 7");
  EXPECT_EQ(decoder("  position_embedding_type: relative_bias\n"
                    "  relative_attention_max_distance: 128\n"
                    "  attention:\n    layer_types: [linear]\n"),
            "c.yaml:4:3: model.position_embedding_type: relative_bias does not support linear in "
            "model.attention.layer_types; set it to sinusoidal or learned");
  EXPECT_EQ(
      decoder("  attention:\n    scale_attn_weights: false\n    layer_types: [full, linear]\n"),
      "c.yaml:5:5: model.attention.scale_attn_weights does not support linear in "
      "model.attention.layer_types; use full, sliding_window or another masked type");
  EXPECT_EQ(decoder("  attention:\n    scale_attn_weights: false\n"
                    "  adaptive_span:\n    type: adaptive\n"),
            "c.yaml:7:5: model.adaptive_span.type does not support "
            "model.attention.scale_attn_weights; set only one of them");
  EXPECT_EQ(decoder("  per_layer_position_embeddings: true\n  position_embedding_type: alibi\n"),
            "c.yaml:4:3: model.per_layer_position_embeddings: true requires "
            "model.position_embedding_type: learned, found alibi");
  EXPECT_EQ(decoder("", "training: {optimizer: {type: schedule_free_adamw}}\n"),
            "c.yaml:5:24: training.optimizer.type: schedule_free_adamw requires "
            "training.lr_scheduler.type: constant, found cosine");
  EXPECT_EQ(decoder("",
                    "training: {optimizer: {type: schedule_free_adamw}, lr_scheduler: {type: "
                    "constant}}\n"),
            "no error");
  EXPECT_EQ(decoder("  scale_decoder_outputs: true\n  tie_word_embeddings: false\n"),
            "c.yaml:4:3: model.scale_decoder_outputs: true requires model.tie_word_embeddings: "
            "true, found false");
  EXPECT_EQ(decoder("  adaptive_span:\n    type: adaptive\n"
                    "  attention:\n    layer_types: [full, lsh]\n"),
            "c.yaml:5:5: model.adaptive_span.type: adaptive does not support lsh in "
            "model.attention.layer_types; set it to none");
  EXPECT_EQ(decoder("  num_attention_heads: 8\n", "parallel: {tensor_parallel_size: 3}\n"),
            "c.yaml:4:3: model.num_attention_heads: expected a multiple of "
            "parallel.tensor_parallel_size = 3, found 8");
  EXPECT_EQ(decoder("", "parallel: {tensor_parallel_size: 3}\n"),
            "c.yaml:5:12: model.num_attention_heads: expected a multiple of "
            "parallel.tensor_parallel_size = 3, found 8");
  EXPECT_EQ(decoder("  attention:\n    layer_types: [full, lsh]\n  num_attention_heads: 2\n",
                    "parallel:\n  tensor_parallel_size: 2\n  context_parallel_size: 2\n"),
            "c.yaml:6:3: model.num_attention_heads: attention type lsh requires a multiple of 2 x "
            "2 (tensor and context ranks), found 2");
  EXPECT_EQ(decoder("  num_attention_heads: 2\n",
                    "parallel:\n  tensor_parallel_size: 2\n  context_parallel_size: 2\n"),
            "no error");
  EXPECT_EQ(decoder(of_lsh),
            "c.yaml:7:7: model.attention.lsh.self_attention_score: expected at least -10000 with "
            "32-bit sums, found -50000");
  EXPECT_EQ(decoder(of_lsh, "precision: {compute_dtype: float64}\n"), "no error");
  EXPECT_EQ(decoder("  attention:\n    lsh:\n      self_attention_score: -5e4\n"), "no error");
  EXPECT_EQ(
      decoder("  attention:\n    layer_types: [strided]\n    stride: 512\n"),
      "c.yaml:6:5: model.attention.stride: 512 leaves only the query itself to strided attention: "
      "data.seq_length is 256");
  EXPECT_EQ(decoder("  attention:\n    layer_types: [global_local]\n    sliding_window: [4]\n"
                    "    global_local:\n      global_positions: [900]\n"),
            "c.yaml:8:7: model.attention.global_local.global_positions: position 900 is out of "
            "range: data.seq_length is 256");
  EXPECT_EQ(decoder("  num_hidden_layers: 4\n",
                    "memory:\n  recompute_granularity: full\n  recompute_num_layers: 5\n"),
            "c.yaml:8:3: memory.recompute_num_layers: expected at most model.num_hidden_layers = "
            "4, found 5");
  EXPECT_EQ(
      decoder("  residual:\n    type: reversible\n", "memory:\n  recompute_granularity: full\n"),
      "c.yaml:8:3: memory.recompute_granularity: full cannot be combined with model.residual.type: "
      "reversible; set it to none");
  EXPECT_EQ(decoder("", "memory: {reconstruction_check_interval: 3}\n"),
            "c.yaml:5:10: memory.reconstruction_check_interval: 3 requires model.residual.type: "
            "reversible, found standard");
  EXPECT_EQ(decoder("", "training: {gradient_accumulation_steps: 3}\n"),
            "c.yaml:5:12: training.gradient_accumulation_steps: expected a divisor of "
            "data.global_batch_size = 8, found 3");
  EXPECT_EQ(
      decoder("",
              "training: {gradient_accumulation_steps: 8}\nparallel: {data_parallel_size: 2}\n"),
      "c.yaml:5:12: training.gradient_accumulation_steps: expected a divisor of the 4 sequences "
      "per data rank (data.global_batch_size 8 over 2 data ranks), found 8");
}

TEST(Configuration, RejectsVocabularySmallerThanTokenizer) {
  const auto problem = [](const std::string& size, std::vector<std::string> set) {
    set.push_back("model.vocab_size=" + size);
    return error_of(good, std::move(set));
  };
  const auto message = [](int ids, const std::string& size) {
    return fmt::format(
        "--set: model.vocab_size: expected at least the {} ids of the tokenizer, found {}",
        ids,
        size);
  };
  EXPECT_EQ(problem("255", {}), message(256, "255"));
  EXPECT_EQ(problem("256", {}), "no error");
  const std::vector<std::string> subwords = {"data.tokenizer.type=sentencepiece",
                                             "data.tokenizer.vocab_size=320"};
  EXPECT_EQ(problem("319", subwords), message(320, "319"));
  EXPECT_EQ(problem("320", subwords), "no error");
  for (const std::string known_later : {"data.tokenizer.model=a.model",
                                        "data.tokenizer.model_type=char",
                                        "training.init_from.path=other"})
    EXPECT_EQ(problem("319", {subwords[0], subwords[1], known_later}), "no error") << known_later;
  // A translation begins and ends with ids of its own.
  EXPECT_EQ(
      problem("257",
              {"run.task=translation", "model.family=encoder_decoder", "data.train_target=b.txt"}),
      message(258, "257"));
}

TEST(Configuration, SequenceLengthChecksIncludeMemory) {
  const auto problem = [](const std::string& family) {
    return error_of(good,
                    {"model.family=" + family,
                     "model.attention.layer_types=[dilated]",
                     "model.attention.dilation=300"});
  };
  EXPECT_EQ(problem("transformer_xl"), "no error");
  EXPECT_EQ(problem("decoder"),
            "--set: model.attention.dilation: 300 leaves only the query itself to dilated "
            "attention: data.seq_length is 256");
  EXPECT_EQ(error_of(good, {"model.family=transformer_xl", "model.attention.layer_types=[lsh]"}),
            "--set: model.attention.layer_types: lsh does not support model.mem_len");
}

TEST(Configuration, ReportsErrorsInSeveralSectionsTogether) {
  EXPECT_EQ(error_of(good,
                     {"data.seq_length=abc",
                      "model.attention.layer_types=[lsh/sliding_window]",
                      "parallel.tensor_parallel_size=3",
                      "parallel.context_parallel_size=5",
                      "memory.recompute_granularity=full",
                      "memory.recompute_num_layers=7"}),
            "--set: data.seq_length: expected an integer, 1 to 68719476736, found \"abc\"\n"
            "--set: model.attention.layer_types: lsh in \"lsh/sliding_window\" cannot be combined "
            "with another type: its queries and keys are one projection\n"
            "--set: model.num_attention_heads: expected a multiple of "
            "parallel.tensor_parallel_size = 3, found 8\n"
            "--set: memory.recompute_num_layers: expected at most model.num_hidden_layers = 6, "
            "found 7");
}

// Other jobs read the configuration of a training run but choose their own layout.
TEST(Configuration, IgnoresLayoutFromAnotherJob) {
  const std::string saved = std::string(good) +
                            "parallel: {tensor_parallel_size: 2, context_parallel_size: 2, "
                            "data_parallel_size: 3}\n";
  const auto read = [&](std::vector<std::string> set) {
    return configure(
        {.file = "c.yaml", .text = saved, .settings = std::move(set), .of_another_job = true});
  };
  EXPECT_EQ(read({})->parallel.tensor, 1);
  EXPECT_EQ(read({})->parallel.context, 1);
  EXPECT_FALSE(read({})->parallel.data);
  EXPECT_EQ(read({"parallel.context_parallel_size=4"})->parallel.context, 4);
  EXPECT_THROW(read({"parallel.tensor_parallel_size=3"}), ConfigurationError);
  const auto lsh = read({"model.attention.layer_types=[lsh]",
                         "model.num_attention_heads=2",
                         "parallel.tensor_parallel_size=2"});
  EXPECT_EQ(lsh->parallel.tensor, 2);
}

TEST(Configuration, ReportsErrorsFromFileAndCommandLineTogether) {
  EXPECT_EQ(
      error_of(std::string(good) + "  global_batch_size: none\n  global_batch_size: 4\nzebra: 1\n",
               {"run.sead=1", "run.seed", "run.num_threads=-1"}),
      "c.yaml:7:3: data.global_batch_size: expected an integer, 1 to 16777216, found \"none\"\n"
      "c.yaml:8:3: data.global_batch_size: duplicate key, first set at c.yaml:7:3\n"
      "c.yaml:9:1: zebra: unknown key; use one of the sections run, model, data, ppo, training, "
      "parallel, memory, precision, checkpoint, metrics\n"
      "--set: expected key=value, found \"run.seed\"\n"
      "--set: run.sead: unknown key; did you mean \"run.seed\"?\n"
      "--set: run.num_threads: expected an integer, 0 to 4096, found \"-1\"");
}

TEST(Configuration, NamesFamilyThatSupportsTheKey) {
  EXPECT_EQ(error_of(good, {"model.same_length=true"}),
            "--set: model.same_length requires model.family transformer_xl, found decoder");
}

TEST(Configuration, ResolvedTextRoundTrips) {
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
      const auto first = from(good,
                              {fmt::format("model.family={}", family),
                               fmt::format("run.collective_timeout_seconds={}", limit)});
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

TEST(Configuration, CompareListsChangedAndRefusedKeys) {
  const std::string saved = from(good, {"model.num_hidden_layers=3"})->table.resolved();
  const auto now = from(good, {"model.num_hidden_layers=4", "run.seed=9"});
  const ConfigurationChange change = compare(*now, saved + "zebra:\n  stripes: 7\n");
  EXPECT_EQ(
      change.refused,
      std::vector<std::string>{"model.num_hidden_layers: checkpoint has 3, config has 4 (--set)"});
  EXPECT_EQ(
      change.differences,
      (std::vector<std::string>{"run.seed: checkpoint has 1, config has 9 (--set)",
                                "model.num_hidden_layers: checkpoint has 3, config has 4 (--set)",
                                "zebra.stripes: checkpoint has 7, config has no such key"}));
}

// A Fourier transform has no weights, but depends on the maximum length.
TEST(Configuration, CompareRefusesOtherLengthsOfFourierLayers) {
  const auto refused = [](const std::string& type, const std::string& length) {
    const std::vector<std::string> set = {"run.task=classification",
                                          "model.family=encoder",
                                          "model.attention.layer_types=" + type,
                                          "model.attention.token_mixing.max_length=" + length,
                                          "data.max_length=40"};
    std::vector<std::string> now = set;
    now.back() = "data.max_length=48";
    return compare(*from(good, now), from(good, set)->table.resolved()).refused;
  };
  EXPECT_EQ(refused("[fnet]", "none"),
            std::vector<std::string>{"data.max_length: checkpoint has 40, config has 48 (--set)"});
  EXPECT_TRUE(refused("[fnet]", "64").empty());
  EXPECT_TRUE(refused("[full]", "none").empty());
}

// LSH layers have no key projection.
TEST(Configuration, CompareRefusesChangesToOrFromLshLayers) {
  const auto refused = [](const std::string& before, const std::string& after) {
    const auto saved = from(good, {"model.attention.layer_types=" + before})->table.resolved();
    return compare(*from(good, {"model.attention.layer_types=" + after}), saved).refused;
  };
  EXPECT_TRUE(refused("[full]", "[sliding_window]").empty());
  EXPECT_TRUE(refused("[lsh]", "[lsh, lsh]").empty());
  EXPECT_TRUE(refused("[lsh, full]", "[lsh, sliding_window]").empty());
  for (const auto& [before, after] :
       {std::pair("[full]", "[lsh]"), {"[lsh]", "[full]"}, {"[lsh, full]", "[full, lsh]"}})
    EXPECT_EQ(refused(before, after),
              std::vector<std::string>{fmt::format(
                  "model.attention.layer_types: checkpoint has {}, config has {} (--set)",
                  before,
                  after)});
}

TEST(Configuration, CompareRefusesChangedGlobalProjections) {
  const auto refused = [](const std::string& before, const std::string& after, bool at_first) {
    const auto with = [](const std::string& kinds, bool projections) {
      return from(good,
                  {"model.attention.layer_types=" + kinds,
                   fmt::format("model.attention.global_local.separate_global_projections={}",
                               projections)});
    };
    return compare(*with(after, true), with(before, at_first)->table.resolved()).refused;
  };
  EXPECT_TRUE(refused("[global_local, full]", "[global_local, sliding_window]", true).empty());
  EXPECT_EQ(refused("[global_local]", "[global_local]", false),
            std::vector<std::string>{
                "model.attention.global_local.separate_global_projections: checkpoint has false, "
                "config has true (--set)"});
  EXPECT_EQ(
      refused("[global_local, full]", "[full, global_local]", true),
      std::vector<std::string>{"model.attention.layer_types: checkpoint has [global_local, full], "
                               "config has [full, global_local] (--set)"});
}

TEST(Configuration, OmitsLineNumbersForGeneratedText) {
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
  EXPECT_EQ(error(std::string(good) + "  global_batcch_size: 3\n"),
            "configuration: data.global_batcch_size: unknown key; did you mean "
            "\"data.global_batch_size\"?");
}

TEST(Configuration, WarnsAboutKeysWithoutEffect) {
  const auto warned = [](const std::string& setting, std::vector<std::string> set) {
    set.push_back(setting);
    const std::string begin =
        fmt::format("--set: {} is ignored: ", setting.substr(0, setting.find('=')));
    return std::ranges::any_of(
        from(good, std::move(set))->table.warnings(),
        [&](const std::string& warning) { return warning.starts_with(begin); });
  };
  const std::string decoder = "model.family=decoder";
  for (const std::string kind : {"sinusoidal", "alibi", "relative", "learned", "rope"}) {
    const auto warnings =
        from(
            good,
            {decoder, "model.position_embedding_type=" + kind, "model.max_position_embeddings=512"})
            ->table.warnings();
    EXPECT_EQ(
        std::ranges::any_of(warnings,
                            [](const std::string& warning) {
                              return warning.starts_with(
                                  "--set: model.max_position_embeddings: no effect on training");
                            }),
        kind != "learned" && kind != "rope")
        << kind;
  }
  struct Case {
    std::string setting;
    std::vector<std::string> idle, read;
  };
  const std::vector<std::string> pairs = {"run.task=translation",
                                          "model.family=encoder_decoder",
                                          "data.train_target=b.txt",
                                          "training.scheduled_sampling.method=parallel"};
  const auto with = [](std::vector<std::string> set, const std::string& more) {
    set.push_back(more);
    return set;
  };
  const std::vector<Case> cases = {
      {"training.lr_scheduler.min_lr=1e-5", {"training.lr_scheduler.type=constant"}, {}},
      {"training.lr_scheduler.total_steps=10", {"training.lr_scheduler.type=inverse_sqrt"}, {}},
      {"training.lr_scheduler.after_end=restart", {}, {"training.lr_scheduler.total_steps=10"}},
      {"training.lr_scheduler.warmup_init_lr=1e-5", {}, {"training.lr_scheduler.warmup_steps=10"}},
      {"training.validation.interval=5", {}, {"data.validation=a.txt"}},
      {"training.validation.max_batches=5", {}, {"data.validation=a.txt"}},
      {"training.label_smoothing_style=fairseq", {}, {"training.label_smoothing=0.1"}},
      {"training.scheduled_sampling.num_passes=3", {}, pairs},
      {"training.scheduled_sampling.warmup_steps=3",
       with(pairs, "training.scheduled_sampling.schedule=linear"),
       pairs},
      {"training.scheduled_sampling.min_gold_prob=0.1",
       pairs,
       with(pairs, "training.scheduled_sampling.schedule=linear")},
      {"data.tokenizer.allow_unk=true", {}, {"data.tokenizer.type=char"}},
      {"precision.allow_tf32=true", {"run.device=cpu"}, {}}};
  for (const Case& each : cases) {
    EXPECT_TRUE(warned(each.setting, each.idle)) << each.setting;
    EXPECT_FALSE(warned(each.setting, each.read)) << each.setting;
  }
  EXPECT_TRUE(warned("data.train_alignments=a.txt", {}));
  EXPECT_TRUE(
      warned("data.documents.sample_by=line", {"run.task=classification", "model.family=encoder"}));
  EXPECT_TRUE(warned("model.use_crf=true", {"run.task=classification", "model.family=encoder"}));
  EXPECT_FALSE(warned("model.use_crf=true", {"run.task=tagging", "model.family=encoder"}));
  EXPECT_TRUE(warned("model.pooling=mean", {"run.task=tagging", "model.family=encoder"}));
}

TEST(Configuration, WarnsAboutKeysThatNoLayerReads) {
  const std::vector<std::string> both = {
      "c.yaml:6:5: model.attention.sliding_window is ignored: no layer of "
      "model.attention.layer_types has sliding_window, dilated or global_local",
      "--set: model.attention.lsh.num_hashes is ignored: no layer of model.attention.layer_types "
      "has lsh"};
  std::string text(good);
  text.insert(text.find("data:"), "  attention:\n    sliding_window: [256]\n");
  EXPECT_EQ(from(text, {"model.attention.lsh.num_hashes=4"})->table.warnings(), both);
  const auto warnings = [](std::vector<std::string> set) {
    return from(good, std::move(set))->table.warnings().size();
  };
  EXPECT_EQ(warnings({}), 0u);
  EXPECT_EQ(warnings({"model.attention.layer_types=[sliding_window]",
                      "model.attention.global_local.global_positions=[0, 3]"}),
            1u);
  EXPECT_EQ(warnings({"model.attention.lsh.num_hashes=2",
                      "model.attention.global_local.num_random_blocks=0"}),
            0u);
  for (const std::string kind : {"linear", "performer", "rfa"})
    EXPECT_EQ(
        warnings({"model.attention.layer_types=[" + kind + "]", "model.attention.dropout=0.1"}), 1u)
        << kind;
  EXPECT_EQ(warnings({"model.attention.layer_types=[linear, full]", "model.attention.dropout=0.1"}),
            0u);
  EXPECT_EQ(warnings({"model.attention.layer_types=[lsh]", "model.attention.lsh.num_hashes=4"}),
            0u);
  const std::string of_synthesizer = "model.attention.layer_types=[synthesizer]";
  for (const auto& [key, scores] :
       {std::pair("model.attention.synthesizer.dense_hidden_size=7", "dense"),
        {"model.attention.synthesizer.factorized_rank=7", "factorized_random"}}) {
    EXPECT_EQ(warnings({key}), 1u);
    EXPECT_EQ(from(good, {of_synthesizer, "model.attention.synthesizer.variants=[random]", key})
                  ->table.warnings(),
              std::vector<std::string>{fmt::format(
                  "--set: {} is ignored: model.attention.synthesizer.variants does not contain {}",
                  std::string(key).substr(0, std::string(key).find('=')),
                  scores)});
    EXPECT_EQ(warnings({of_synthesizer,
                        fmt::format("model.attention.synthesizer.variants=[{}]", scores),
                        key}),
              0u);
  }
  const auto of_decoder = [&](const std::string& positions) {
    return warnings({"model.family=decoder",
                     "model.relative_attention_max_distance=8",
                     "model.position_embedding_type=" + positions});
  };
  EXPECT_EQ(of_decoder("sinusoidal"), 1u);
  EXPECT_EQ(of_decoder("relative"), 0u);
  EXPECT_EQ(of_decoder("alibi"), 1u);
  EXPECT_EQ(warnings({"model.family=decoder", "model.relative_attention_num_buckets=8"}), 1u);
  EXPECT_EQ(warnings({"model.family=decoder",
                      "model.relative_attention_num_buckets=8",
                      "model.position_embedding_type=relative_bias"}),
            0u);
}

TEST(Configuration, RejectsOverflowingWindows) {
  EXPECT_NE(error_of(good, {"model.attention.sliding_window=[4000000000000000001]"}), "no error");
  EXPECT_NE(error_of(good, {"model.attention.dilation=4000000000000000000"}), "no error");
  EXPECT_NE(error_of(good, {"model.attention.summary.num_patterns=4000000000000000000"}),
            "no error");
}

}  // namespace
}  // namespace longspan::configuration_test
