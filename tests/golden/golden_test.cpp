// Checks every FAMILY-CASE.h5 of the directory LONGSPAN_GOLDEN, by default this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

struct Family {
  std::string prefix;  // prefix of file names
  void (*check)(const GoldenFile&);
};

// The first matching prefix wins. A new family is one line here and in families.h.
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"attention-", check_attention},
      {"encoder_decoder-encoder_layer_", check_encoder_layer},
      {"encoder_decoder-decoder_layer_", check_decoder_layer},
      {"encoder_decoder-transformer_", check_encoder_decoder},
      {"reformer-lsh_", check_hash_attention},
      {"reformer-full_qk", check_hash_attention},
      {"local_attention-", check_local_attention},
      {"transformer_xl-layer_", check_transformer_xl_layer},
      {"transformer_xl-lm_", check_transformer_xl},
      {"reformer-reversible", check_reversible},
      {"optimiser-sgd_", check_sgd},
      {"optimiser-adafactor_", check_adafactor},
      {"optimiser-adam", check_adam},
      {"optimiser-lamb_", check_lamb},
      {"optimiser-clip_global_norm", check_clipping},
      {"optimiser-schedules", check_schedules},
      {"masks-", check_masks},
      {"small_ops-shaw_relative_attention", check_shaw},
      {"small_ops-bert_relative_key", check_relative_key},
      {"adaptive_span-", check_adaptive_span},
      {"small_ops-layer_norm", check_layer_norm},
      {"small_ops-gelu_", check_gelu},
      {"small_ops-xent_label_smoothing_", check_label_smoothing},
      {"small_ops-embedding_sinusoid_", check_sinusoids},
      {"bleu-", check_bleu},
      {"crf-", check_linear_chain},
      {"universal_transformer-", check_universal_transformer},
      {"gtrxl-gate_", check_gate},
      {"gtrxl-layer_", check_gated_layer},
      {"linear_attention-", check_linear_attention},
      {"performer-projection", check_performer_projection},
      {"performer-favor_", check_performer},
      {"guided_alignment-", check_guided_alignment},
      {"pointer_generator-", check_pointer_generator},
      {"linformer-", check_linformer},
      {"routing-", check_routing},
      {"sinkhorn-", check_sinkhorn},
      {"retention-", check_gated_recurrence},
      {"gla-", check_gated_recurrence},
      {"delta_rule-", check_gated_recurrence},
      {"gated_delta_rule-recurrence", check_gated_recurrence},
      {"gated_delta_rule-initial_state", check_gated_recurrence},
      {"gated_delta_rule-packed", check_gated_recurrence},
      {"gated_delta_rule-layer_", check_gated_delta_net},
      {"kda-", check_gated_recurrence},
      {"rwkv7-", check_rwkv7},
      {"mamba2-ssd", check_state_space},
      {"mamba2-mixer", check_mamba2},
      {"short_convolution-", check_short_convolution},
      {"separable_convolution-", check_separable_convolution},
      {"sequence_level-minimum_risk", check_minimum_risk},
      {"sequence_level-self_critical", check_self_critical},
      {"sequence_level-leave_one_out", check_leave_one_out},
      {"sequence_level-sentence_bleu", check_sentence_bleu},
      {"aft-", check_attention_free},
      {"fnet-", check_fourier_mixing},
      {"gmlp-", check_spatial_gate},
      {"mlp_mixer-", check_mlp_mixer},
  };
  return all;
}

std::filesystem::path folder() {
  const char* const named = std::getenv("LONGSPAN_GOLDEN");
  return named != nullptr ? named : LONGSPAN_SOURCE_DIRECTORY "/tests/golden";
}

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder(), error))
    if (entry.path().extension() == ".h5") result.push_back(entry.path());
  std::ranges::sort(result);
  return result;
}

std::string test_name(const ::testing::TestParamInfo<std::filesystem::path>& file) {
  std::string name = file.param.stem().string();
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

class Golden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Golden, MatchesReference) {
  const std::string name = GetParam().stem().string();
  const auto family = std::ranges::find_if(
      families(), [&](const Family& candidate) { return name.starts_with(candidate.prefix); });
  ASSERT_NE(family, families().end()) << name << ": nothing here checks this file";
  const GoldenFile file(GetParam());
  family->check(file);
  for (const std::string& part : file.unused())
    ADD_FAILURE() << name << ": " << part << " was not used";
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, ::testing::ValuesIn(files()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);

TEST(GoldenFolder, HasFiles) { EXPECT_FALSE(files().empty()) << "no golden file in " << folder(); }

}  // namespace
}  // namespace longspan::golden
