// Options from the config.json of published decoders.
#include <map>

#include "framework/core/error.h"
#include "framework/interop/architecture.h"
#include "tests/interop/safetensors_file.h"

namespace longspan::testing::llama_test {
namespace {

class LlamaConfig : public ::testing::Test {
 protected:
  ImportedConfig read_config(const std::string& text) const {
    const auto path = directory_.path() / "config.json";
    write_bytes(path, text);
    const ModelConfig config(path);
    return architecture_of(config).read(config);
  }
  std::map<std::string, std::string> settings(const std::string& text) const {
    const ModelSettings all = read_config(text).settings;
    const std::map<std::string, std::string> by_key(all.begin(), all.end());
    EXPECT_EQ(by_key.size(), all.size()) << "a key is told twice";
    return by_key;
  }
  std::string refusal(const std::string& text) const {
    return refusal_of([&] { read_config(text); });
  }

 private:
  TemporaryDirectory directory_;
};

std::string value_of(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "nothing" : found->second;
}

constexpr const char* llama31 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
  "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": true,
  "vocab_size": 128256})";

TEST_F(LlamaConfig, ReadsLlama31) {
  const auto found = settings(llama31);
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"model.family", "decoder"},
           {"model.vocab_size", "128256"},
           {"model.hidden_size", "4096"},
           {"model.num_hidden_layers", "32"},
           {"model.num_attention_heads", "32"},
           {"model.num_key_value_heads", "8"},
           {"model.head_dim", "nothing"},
           {"model.intermediate_size", "14336"},
           {"model.activation", "swiglu"},
           {"model.norm.eps", "1e-05"},
           {"model.attention.bias", "[]"},
           {"model.mlp_bias", "false"},
           {"model.tie_word_embeddings", "false"},
           {"model.max_position_embeddings", "131072"},
           {"data.seq_length", "2048"},
           {"model.rope.theta", "500000"},
           {"model.rope.scaling.type", "llama3"},
           {"model.rope.scaling.factor", "8"},
           {"model.rope.scaling.original_max_position_embeddings", "8192"},
           {"model.attention.layer_types", "nothing"}})
    EXPECT_EQ(value_of(found, key), value) << key;
}

TEST_F(LlamaConfig, ReadsQwen25) {
  const auto found = settings(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896,
    "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
    "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
    "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true,
    "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(value_of(found, "model.attention.bias"), "[query, key, value]");
  EXPECT_EQ(value_of(found, "model.attention.layer_types"), "nothing");
  EXPECT_EQ(value_of(found, "model.tie_word_embeddings"), "true");
  EXPECT_EQ(value_of(found, "model.rope.theta"), "1000000");
  EXPECT_EQ(value_of(found, "model.rope.scaling.type"), "nothing");
}

// The text part of the published Qwen3.5-9B.
constexpr const char* qwen35_text = R"({"attention_bias": false, "attention_dropout": 0.0,
  "attn_output_gate": true, "dtype": "bfloat16", "eos_token_id": 248044,
  "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 12288, "linear_conv_kernel_dim": 4,
  "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
  "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144,
  "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
  "mtp_use_dedicated_embeddings": false, "num_attention_heads": 16, "num_hidden_layers": 32,
  "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "use_cache": true, "vocab_size": 248320,
  "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
  "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}})";

TEST_F(LlamaConfig, ReadsQwen35) {
  const std::string whole = R"({"architectures": ["Qwen3_5ForConditionalGeneration"],
    "image_token_id": 248056, "model_type": "qwen3_5", "tie_word_embeddings": false,
    "video_token_id": 248057, "vision_config": {"depth": 27}, "vision_end_token_id": 248054,
    "vision_start_token_id": 248053, "text_config": )";
  for (const std::string& text : {std::string(qwen35_text), whole + qwen35_text + "}"}) {
    const auto found = settings(text);
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"model.attention.layer_types",
              "[gated_delta_net, gated_delta_net, gated_delta_net, full]"},
             {"model.attention.delta_rule.num_key_heads", "16"},
             {"model.attention.delta_rule.num_value_heads", "32"},
             {"model.attention.delta_rule.key_head_dim", "128"},
             {"model.attention.delta_rule.value_head_dim", "128"},
             {"model.attention.delta_rule.norm_eps", "1e-06"},
             {"model.attention.short_convolution.kernel_size", "4"},
             {"model.attention.output_gate", "true"},
             {"model.attention.qk_norm", "true"},
             {"model.attention.bias", "[]"},
             {"model.norm.zero_centered", "true"},
             {"model.norm.type", "rmsnorm"},
             {"model.num_attention_heads", "16"},
             {"model.num_key_value_heads", "4"},
             {"model.head_dim", "nothing"},
             {"model.rope.theta", "10000000"},
             {"model.rope.partial_rotary_factor", "0.25"},
             {"model.rope.scaling.type", "nothing"},
             {"model.tie_word_embeddings", "false"}})
      EXPECT_EQ(value_of(found, key), value) << key;
  }
}

TEST_F(LlamaConfig, ReadsMistral01) {
  const std::string begin = R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
    "num_hidden_layers": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "vocab_size": 32000)";
  const auto first = settings(begin + R"(, "num_key_value_heads": 8, "sliding_window": 4096})");
  EXPECT_EQ(value_of(first, "model.attention.layer_types"), "[sliding_window]");
  EXPECT_EQ(value_of(first, "model.attention.sliding_window"), "[4096]");
  const auto third = settings(begin + R"(, "num_key_value_heads": 8, "sliding_window": null})");
  EXPECT_EQ(value_of(third, "model.attention.layer_types"), "nothing");
  // Missing keys have the defaults of transformers; null key heads equal the query heads.
  EXPECT_EQ(value_of(settings(begin + "}"), "model.num_key_value_heads"), "8");
  EXPECT_EQ(value_of(settings(begin + "}"), "model.attention.sliding_window"), "[4096]");
  EXPECT_EQ(
      value_of(settings(begin + R"(, "num_key_value_heads": null})"), "model.num_key_value_heads"),
      "nothing");
}

TEST_F(LlamaConfig, ReadsSmolLm2AndConfigVariants) {
  const std::string begin = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
    "num_key_value_heads": 3, "num_hidden_layers": 30, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-05, "rope_theta": 100000, "vocab_size": 49152)";
  const auto plain = settings(begin + "}");
  for (
      const char* const more :
      {R"("is_llama_config": true, "rope_interleaved": false, "rope_scaling": null)",
       R"("unsloth_fixed": true, "unsloth_version": "2024.9")",
       R"("max_sequence_length": 2048, "is_decoder": false, "is_encoder_decoder": false,
           "add_cross_attention": false, "tie_encoder_decoder": false)",
       // A factor of 1 has no effect.
       R"("rope_scaling": {"type": "linear", "factor": 1.0})",
       R"("rope_scaling": {"type": "yarn", "factor": 1, "original_max_position_embeddings": 8192})",
       R"("rope_parameters": {"rope_type": "default", "rope_theta": 100000})"})
    EXPECT_EQ(settings(begin + ", " + more + "}"), plain) << more;
  for (const auto& [more, part] : std::map<std::string, std::string>{
           {R"("rope_interleaved": true)", "\"rope_interleaved\": expected false"},
           {R"("add_cross_attention": true)", "\"add_cross_attention\": expected false"}})
    EXPECT_NE(refusal(begin + ", " + more + "}").find(part), std::string::npos)
        << refusal(begin + ", " + more + "}");
  // transformers reads mscale only for yarn.
  const std::string longrope =
      begin + R"(, "rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1])";
  EXPECT_EQ(settings(longrope + R"(, "mscale": 2, "mscale_all_dim": 1}})"),
            settings(longrope + "}}"));
}

}  // namespace
}  // namespace longspan::testing::llama_test
