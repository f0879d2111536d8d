// Hints at the keys and values that other programs name differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/cli/configuration.h"

namespace longspan::configuration_hints_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& setting) {
  try {
    configure({"c.yaml",
               "run: {output_dir: r}\nmodel: {family: decoder}\ndata: {train: book.txt}\n",
               {setting}});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

std::string hint(const std::string& setting) {
  const std::string error = error_of(setting);
  return error.substr(error.find(';') + 2);
}

std::string meant(std::string_view key) { return fmt::format("did you mean \"{}\"?", key); }

TEST(ConfigurationHints, ResolveCommonAliases) {
  for (const auto& [setting, key] :
       {std::pair("training.lr=1", "training.learning_rate"),
        {"lr=1", "training.learning_rate"},
        {"learning_rate=1", "training.learning_rate"},
        {"model.optimizer.lr=1", "training.learning_rate"},
        {"training.batch_size=1", "data.global_batch_size"},
        {"model.d_model=1", "model.hidden_size"},
        {"model.width=1", "model.hidden_size"},
        {"model.hiddenSize=1", "model.hidden_size"},
        {"model.hiden_size=1", "model.hidden_size"},
        {"model.n_embd=1", "model.hidden_size"},
        {"model.n_layer=1", "model.num_hidden_layers"},
        {"training.gradient_accumulation=1", "training.gradient_accumulation_steps"},
        {"training.grad_accum=1", "training.gradient_accumulation_steps"},
        {"training.max_iters=1", "training.max_steps"},
        {"training.steps=1", "training.max_steps"},
        {"training.adam_eps=1", "training.optimizer.eps"},
        {"model.rms_norm_eps=1", "model.norm.eps"},
        {"model.weight_tying=true", "model.tie_word_embeddings"},
        {"training.warmup_steps=1", "training.lr_scheduler.warmup_steps"},
        {"model.norm.epsilon=1", "model.norm.eps"},
        {"model.norm.kind=rms", "model.norm.type"},
        {"model.norm=rmsnorm", "model.norm.type"},
        {"training.optimizer=adamw", "training.optimizer.type"},
        {"model.attention.type=full", "model.attention.layer_types"},
        {"checkpoint.interval=1", "checkpoint.save_interval"},
        {"parallel.tp=1", "parallel.tensor_parallel_size"},
        {"checkpoint.save_total_limit=1", "checkpoint.keep_latest"},
        {"metrics.logging_steps=1", "metrics.log_interval"}})
    EXPECT_TRUE(hint(setting).ends_with(fmt::format("did you mean \"{}\"?", key)))
        << setting << ": " << hint(setting);
  EXPECT_NE(hint("model.use_flash_attention=true").find("as in FlashAttention"), std::string::npos);
  EXPECT_NE(hint("training.nucleus=1").find("longspan generate --top-p"), std::string::npos);
  for (const auto& [setting, value] : {std::pair("precision.compute_dtype=bf16", "bfloat16"),
                                       {"precision.compute_dtype=fp16", "float16"},
                                       {"model.norm.type=rms_norm", "rmsnorm"},
                                       {"run.task=causal_lm", "language_modeling"},
                                       {"training.lr_scheduler.type=noam", "inverse_sqrt"},
                                       {"run.device=gpu", "cuda"}})
    EXPECT_TRUE(hint(setting).ends_with(fmt::format("did you mean \"{}\"?", value))) << setting;
}

TEST(ConfigurationHints, PreferTheKeyWithTheSameEnding) {
  for (const auto& [setting, key] :
       {std::pair("tokenizer.vocab_size=300", "data.tokenizer.vocab_size"),
        {"training.tokenizer.vocab_size=300", "data.tokenizer.vocab_size"},
        {"tokenizer.model_type=bpe", "data.tokenizer.model_type"},
        {"lr_scheduler.type=cosine", "training.lr_scheduler.type"},
        {"attention.dropout=0", "model.attention.dropout"},
        {"rope.scaling.type=yarn", "model.rope.scaling.type"}})
    EXPECT_EQ(hint(setting), meant(key)) << setting;
}

TEST(ConfigurationHints, ResolveNamesOfSections) {
  for (const auto& [setting, key] :
       {std::pair("scheduler.type=cosine", "training.lr_scheduler.type"),
        {"scheduler.warmup_steps=3", "training.lr_scheduler.warmup_steps"},
        {"lr_scheduler.decay_style=cosine", "training.lr_scheduler.type"},
        {"lr_decay_style=cosine", "training.lr_scheduler.type"},
        {"lr_scheduler.name=cosine", "training.lr_scheduler.type"},
        {"training.lr_scheduler.name=cosine", "training.lr_scheduler.type"},
        {"lr_scheduler_type=cosine", "training.lr_scheduler.type"},
        {"optim.weight_decay=0", "training.optimizer.weight_decay"},
        {"model.residual.kind=gated", "model.residual.type"},
        {"rope_scaling.factor=2", "model.rope.scaling.factor"},
        {"training.precision=bf16", "precision.compute_dtype"},
        {"training.grad_clip.value=1", "training.max_grad_norm"},
        {"training.activation_recomputation=true", "memory.recompute_granularity"}})
    EXPECT_EQ(hint(setting), meant(key)) << setting;
  EXPECT_THAT(hint("precision=bf16"), HasSubstr("did you mean \"precision.compute_dtype\"?"));
  EXPECT_EQ(hint("model.pre_norm=true"), "set model.norm.position to pre or post");
  EXPECT_THAT(hint("data.reset_position_ids=true"), HasSubstr("positions restart"));
}

TEST(ConfigurationHints, ListKeysOfTheDeepestSection) {
  EXPECT_THAT(hint("training.lr_scheduler.foo=1"),
              HasSubstr("use one of the keys of training.lr_scheduler: type, "));
  EXPECT_THAT(hint("lr_scheduler.foo=1"),
              HasSubstr("use one of the keys of training.lr_scheduler: type, "));
  EXPECT_THAT(hint("training.validation.zebra=1"),
              HasSubstr("use one of the keys of training.validation: "));
  EXPECT_THAT(hint("training.zebra=1"), HasSubstr("use one of the keys of training: "));
  EXPECT_THAT(hint("zebra.foo=1"), HasSubstr("use one of the sections run, "));
}

TEST(ConfigurationHints, ReportUnsupportedFeatures) {
  for (const std::string setting : {"early_stopping_patience=3",
                                    "training.validation.early_stopping_patience=3",
                                    "training.patience=3",
                                    "early_stopping.min_delta=0"})
    EXPECT_EQ(hint(setting), "remove the key, as early stopping is not supported") << setting;
  for (const std::string setting :
       {"ema=true", "use_ema=true", "ema.decay=0.9", "training.ema_decay=0.9", "model.ema_decay=1"})
    EXPECT_EQ(hint(setting),
              "remove the key, as a moving average of the weights (EMA) is not supported")
        << setting;
  EXPECT_EQ(hint("model.attention.ema_decay=0.9"), meant("model.attention.routing.ema_decay"));
  EXPECT_THAT(hint("model.num_experts=8"),
              HasSubstr("mixture-of-experts layers are not supported"));
  EXPECT_THAT(hint("parallel.pp=2"), HasSubstr("pipeline parallelism is not supported"));
}

TEST(ConfigurationHints, AdviseWhereNoKeyHasTheMeaning) {
  for (const auto& [setting, advice] :
       {std::pair("data.append_eos=true", "set data.documents.end_token to a token or its id"),
        {"data.append_eod=true", "set data.documents.end_token to a token or its id"},
        {"data.eos_token=a", "set data.documents.end_token, or with run.task: translation "},
        {"tokenizer.eos_token=a", "set data.documents.end_token, or with run.task: translation "},
        {"data.documents.eos_token=a", "set data.documents.end_token, or with "},
        {"per_device_eval_batch_size=1", "remove the key; validation uses data.global_batch_size"},
        {"eval_batch_size=1", "remove the key; validation uses data.global_batch_size"},
        {"training.validation.batch_size=1", "remove the key; validation uses "},
        {"model.gated_mlp=true", "set model.activation to swiglu, geglu or reglu"},
        {"tokenizer.train_file=a", "remove the key; the tokenizer is trained on data.train"},
        {"data.tokenizer.train_file=a", "remove the key; the tokenizer is trained on data.train"},
        {"bf16=true", "set precision.compute_dtype to bfloat16"},
        {"training.bf16=true", "set precision.compute_dtype to bfloat16"},
        {"fp16.enabled=true", "set precision.compute_dtype to float16"},
        {"model.attention_bias=true", "set model.attention.bias to [] for none, or to "},
        {"model.qkv_bias=true", "set model.attention.bias to [] for none, or to "},
        {"model.add_bias_linear=true", "set model.attention.bias to [] and model.mlp_bias to "},
        {"model.bias=true", "set model.attention.bias to [] and model.mlp_bias to "}})
    EXPECT_THAT(hint(setting), HasSubstr(advice)) << setting;
}

TEST(ConfigurationHints, ResolveNamesOfValues) {
  for (const auto& [setting, value] :
       {std::pair("precision.compute_dtype=bf16", "bfloat16"),
        {"precision.compute_dtype=bf16-mixed", "bfloat16"},
        {"precision.compute_dtype=half", "float16"},
        {"precision.compute_dtype=16", "float16"},
        {"precision.compute_dtype=fp32", "float32"},
        {"precision.compute_dtype=full", "float32"},
        {"model.use_parallel_residual=parallel", "true"},
        {"model.attention.bias=[query, valeu]", "value"},
        {"model.attention.layer_types=full_attention", "full"},
        {"model.attention.layer_types=[sliding_attention]", "sliding_window"},
        {"model.attention.layer_types=[chunked_attention]", "block"}})
    EXPECT_EQ(hint(setting), meant(value)) << setting;
  EXPECT_EQ(hint("data.tokenizer.type=unigram"),
            "set data.tokenizer.type to sentencepiece, and data.tokenizer.model_type to unigram");
}

TEST(ConfigurationHints, ReportAllUnknownAttentionTypes) {
  EXPECT_THAT(
      error_of("model.attention.layer_types=[sliding_attention, full, linear_attention, full]"),
      HasSubstr("(a/b divides the heads between types a and b, a+b combines their masks), found "
                "\"sliding_attention\", \"linear_attention\"; did you mean \"sliding_window\", "
                "\"linear\"?"));
}

TEST(ConfigurationHints, WriteListsForBooleans) {
  for (const std::string value : {"true", "false", "none"})
    EXPECT_EQ(hint("model.attention.bias=" + value),
              "write [] for none, or [query, key, value, out]")
        << value;
  EXPECT_EQ(hint("model.attention.sliding_window=false"), "write a list, such as [128]");
}

}  // namespace
}  // namespace longspan::configuration_hints_test
