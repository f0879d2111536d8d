// Families of golden files. Each check builds the case from the file alone and compares all outputs
// and all gradients.
#pragma once

#include "tests/golden/golden_file.h"

namespace longspan::golden {

void check_attention(const GoldenFile& file);
void check_encoder_layer(const GoldenFile& file);
void check_decoder_layer(const GoldenFile& file);
void check_encoder_decoder(const GoldenFile& file);
void check_hash_attention(const GoldenFile& file);
void check_local_attention(const GoldenFile& file);
void check_transformer_xl_layer(const GoldenFile& file);
void check_transformer_xl(const GoldenFile& file);
void check_reversible(const GoldenFile& file);
void check_sgd(const GoldenFile& file);
void check_adam(const GoldenFile& file);
void check_lamb(const GoldenFile& file);
void check_adafactor(const GoldenFile& file);
void check_clipping(const GoldenFile& file);
void check_schedules(const GoldenFile& file);
void check_masks(const GoldenFile& file);
void check_shaw(const GoldenFile& file);
void check_relative_key(const GoldenFile& file);
void check_adaptive_span(const GoldenFile& file);
void check_layer_norm(const GoldenFile& file);
void check_gelu(const GoldenFile& file);
void check_label_smoothing(const GoldenFile& file);
void check_sinusoids(const GoldenFile& file);
void check_bleu(const GoldenFile& file);
void check_linear_chain(const GoldenFile& file);
void check_universal_transformer(const GoldenFile& file);
void check_gate(const GoldenFile& file);
void check_gated_layer(const GoldenFile& file);
void check_linear_attention(const GoldenFile& file);
void check_performer(const GoldenFile& file);
void check_performer_projection(const GoldenFile& file);
void check_guided_alignment(const GoldenFile& file);
void check_pointer_generator(const GoldenFile& file);
void check_linformer(const GoldenFile& file);
void check_routing(const GoldenFile& file);
void check_sinkhorn(const GoldenFile& file);
void check_gated_recurrence(const GoldenFile& file);
void check_gated_delta_net(const GoldenFile& file);
void check_rwkv7(const GoldenFile& file);
void check_state_space(const GoldenFile& file);
void check_mamba2(const GoldenFile& file);
void check_short_convolution(const GoldenFile& file);
void check_separable_convolution(const GoldenFile& file);
void check_minimum_risk(const GoldenFile& file);
void check_self_critical(const GoldenFile& file);
void check_leave_one_out(const GoldenFile& file);
void check_sentence_bleu(const GoldenFile& file);
void check_attention_free(const GoldenFile& file);
void check_fourier_mixing(const GoldenFile& file);
void check_spatial_gate(const GoldenFile& file);
void check_mlp_mixer(const GoldenFile& file);

}  // namespace longspan::golden
