#include "framework/core/field_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/core/option_text.h"

namespace longspan {
namespace {

// What is longer names nothing, and takes long to compare.
constexpr std::size_t longest_name = 200;

// One line a key. A name with a dot is that of a key in a section: "norm.eps".
constexpr FieldName names_of_keys[] = {
    {"output_dir out_dir save_dir logdir", "run.directory"},
    {"random_seed manual_seed", "run.seed"},
    {"num_threads omp_num_threads", "run.threads"},
    {"accelerator", "run.device"},
    {"collective_timeout_seconds ddp_timeout timeout", "run.time_limit"},
    {"model_type architecture arch", "model.family"},
    {"vocab_size n_vocab", "model.vocabulary"},
    {"num_hidden_layers num_layers n_layer n_layers depth decoder_layers", "model.layers"},
    {"hidden_size d_model n_embd embed_dim embedding_dim hidden_dim dim model_dim", "model.width"},
    {"num_attention_heads n_head n_heads num_heads attention_heads", "model.heads"},
    {"head_dim d_head d_kv kv_channels", "model.head_width"},
    {"num_key_value_heads num_query_groups n_kv_heads kv_heads gqa mqa", "model.key_heads"},
    {"qk_norm qk_layernorm", "model.query_key_norm"},
    {"attn_logit_softcapping logit_softcapping", "model.score_cap"},
    {"intermediate_size d_ff ffn_dim ffn_hidden_size n_inner d_inner mlp_dim",
     "model.feed_forward"},
    {"mlp_bias ffn_bias", "model.feed_forward_bias"},
    {"hidden_act activation_function act_fn nonlinearity", "model.activation"},
    {"use_parallel_residual parallel_residual", "model.sublayers"},
    {"norm.position norm_first pre_ln post_ln normalize_before", "model.norm"},
    {"norm.type normalization norm_type", "model.norm_kind"},
    {"norm.eps layer_norm_eps rms_norm_eps layernorm_epsilon", "model.norm_epsilon"},
    {"attention_probs_dropout_prob attn_pdrop attn_dropout", "model.attention_dropout"},
    {"hidden_dropout_prob resid_pdrop embd_pdrop dropout_rate dropout_prob", "model.dropout"},
    {"layer_types attention_type attn_type attn_implementation", "model.attention"},
    {"sliding_window window_size attention_window_size", "model.attention_window"},
    {"tie_word_embeddings tie_embeddings weight_tying share_decoder_input_output_embed",
     "model.tied_embeddings"},
    {"initializer_range init_std init_method_std", "model.initial_deviation"},
    {"final_logit_softcapping", "model.logit_cap"},
    {"mem_len memory_length", "model.memory"},
    {"clamp_len", "model.clamp_length"},
    {"lm_head_bias", "model.output_bias"},
    {"max_span attn_span adapt_span", "model.span_limit"},
    {"position_embedding_type positional_encoding pos_encoding position_embeddings pos_emb",
     "model.positions"},
    {"max_position_embeddings n_positions max_positions max_seq_len", "model.longest"},
    {"relative_attention_max_distance", "model.relative_reach"},
    {"relative_attention_num_buckets", "model.relative_buckets"},
    {"rope_theta rope.theta rotary_emb_base", "model.rotary_base"},
    {"partial_rotary_factor rotary_pct rotary_percent", "model.rotary_share"},
    {"rotary_interleaved rope_interleaved", "model.rotary_pairs"},
    {"rope_scaling rope_type", "model.rotary_scaling"},
    {"num_future_tokens multi_token_prediction mtp", "model.targets"},
    {"num_encoder_layers enc_layers", "model.encoder_layers"},
    {"scale_embedding scale_embeddings", "model.scaled_embeddings"},
    {"layernorm_embedding", "model.embedding_norm"},
    {"act_loss_weight ponder_cost", "model.ponder_weight"},
    {"num_rec_steps num_recurrent_steps", "model.steps"},
    {"pointer_generator copy_mechanism", "model.copy"},
    {"type_vocab_size token_type_ids", "model.token_types"},
    {"patch_size", "model.patch"},
    {"image_mean", "model.pixel_mean"},
    {"image_std", "model.pixel_deviation"},
    {"use_crf crf", "model.tag_readout"},
    {"train_file dataset dataset_path train_data train_path data_path", "data.train"},
    {"validation_file valid_path val_data eval_dataset dev", "data.validation"},
    {"test_file test_path", "data.test"},
    {"target_lang tgt_file path_tgt", "data.train_target"},
    {"tokenizer_type tokenizer.type", "data.tokenizer"},
    {"tokenizer_file tokenizer_path tokenizer_name vocab_file spm_model merges_file",
     "data.tokenizer_model"},
    {"tokenizer_model_type", "data.tokenizer_kind"},
    {"cache_dir", "data.token_cache"},
    {"batch_size global_batch_size train_batch_size per_device_train_batch_size micro_batch_size "
     "bs",
     "data.batch"},
    {"seq_length seq_len sequence_length block_size context_length ctx_len bptt", "data.segment"},
    {"max_tokens max_tokens_per_batch mini_batch_words", "data.batch_tokens"},
    {"max_length max_source_length", "data.longest"},
    {"truncation overlong_examples", "data.too_long"},
    {"pad_to_multiple_of", "data.length_multiple"},
    {"num_workers prefetch prefetch_factor dataloader_num_workers", "data.read_ahead"},
    {"spm_alpha sentencepiece_alphas bpe_dropout", "data.subword_sampling"},
    {"reset_attention_mask document_mask", "data.documents_apart"},
    {"text_column dataset_text_field json_keys", "data.text_field"},
    {"eos_token eos append_eod eod_token", "data.end_of_text"},
    {"gamma", "reinforcement.discount"},
    {"gae_lambda", "reinforcement.lambda"},
    {"clip_range clip_eps", "reinforcement.clip"},
    {"vf_coef value_loss_coef", "reinforcement.value_weight"},
    {"ent_coef entropy_coef", "reinforcement.entropy_weight"},
    {"num_minibatches", "reinforcement.minibatches"},
    {"max_steps max_iters train_iters total_steps num_train_epochs num_epochs epochs max_epochs",
     "training.steps"},
    {"gradient_accumulation_steps grad_accum accumulate_grad_batches update_freq",
     "training.accumulation"},
    {"max_grad_norm gradient_clip_val grad_clip clip_grad gradient_clipping", "training.clip_norm"},
    {"eval_steps eval_interval eval_every val_check_interval validation_interval "
     "validation.interval",
     "training.validation_every"},
    {"eval_iters limit_val_batches", "training.validation_batches"},
    {"init_from pretrained finetune_from load_checkpoint initial_load_path", "training.start_from"},
    {"lora lora_r lora_rank lora.rank peft", "training.adapters.rank"},
    {"lora_alpha lora.alpha", "training.adapters.alpha"},
    {"lora_dropout", "training.adapters.dropout"},
    {"target_modules", "training.adapters.layers"},
    {"modules_to_save", "training.adapters.beside"},
    {"requires_grad freeze freeze_parameters", "training.frozen"},
    {"lr_scheduler lr_scheduler_type lr_schedule lr_decay_style scheduler", "training.schedule"},
    {"lr max_lr peak_lr base_lr learningrate step_size", "training.learning_rate"},
    {"min_lr eta_min final_lr", "training.end_learning_rate"},
    {"warmup_steps warmup_iters num_warmup_steps warmup_updates lr_warmup_steps warmup_ratio",
     "training.warmup"},
    {"warmup_init_lr lr_warmup_init", "training.warmup_learning_rate"},
    {"lr_decay_iters num_training_steps total_num_update", "training.schedule_steps"},
    {"num_decay_steps lr_wsd_decay_iters", "training.decay_steps"},
    {"optim optimizer optimizer.type optimizer.name", "training.optimizer.kind"},
    {"adam_beta1 betas", "training.optimizer.beta1"},
    {"adam_beta2", "training.optimizer.beta2"},
    {"eps adam_epsilon adam_eps", "training.optimizer.epsilon"},
    {"weight_decay wd l2", "training.optimizer.weight_decay"},
    {"data_parallel_size dp dp_size ddp data_parallel", "parallel.data"},
    {"tensor_parallel_size tensor_model_parallel_size tp tp_size tensor_parallel model_parallel",
     "parallel.tensor"},
    {"context_parallel_size cp cp_size context_parallel ring_attention", "parallel.context"},
    {"sequence_parallel", "parallel.sequence"},
    {"zero_stage zero_optimization fsdp sharding distributed_optimizer", "parallel.zero"},
    {"bucket_cap_mb", "training.bucket_megabytes"},
    {"backend dist_backend gpu_backend ddp_backend", "parallel.transport"},
    {"gradient_checkpointing activation_checkpointing recompute_granularity checkpoint_activations",
     "memory.recompute"},
    {"chunk_size_feed_forward", "memory.feed_forward_chunks"},
    {"num_output_chunks", "memory.loss_chunks"},
    {"dtype torch_dtype compute_dtype mixed_precision amp fp16 bf16 param_dtype",
     "precision.compute"},
    {"reduce_dtype grad_reduce_dtype", "precision.gradient_reduction"},
    {"allow_tf32", "precision.tf32"},
    {"init_scale initial_scale_power", "precision.loss_scale"},
    {"growth_interval", "precision.loss_scale_growth_interval"},
    {"save_steps save_interval save_every checkpoint_interval", "checkpoint.every"},
    {"save_total_limit keep_latest_k keep_last", "checkpoint.keep"},
    {"metric_for_best_model best_metric load_best_model_at_end best_checkpoint_metric",
     "checkpoint.keep_best"},
    {"async_save async_mode", "checkpoint.background"},
    {"resume_from_checkpoint resume_from", "checkpoint.resume"},
    {"logging_steps log_interval log_every log_freq", "metrics.every"},
    {"enable_tensorboard", "metrics.tensorboard"},
    {"report_to wandb mlflow", "metrics.export"},

    {"rope rotary_embedding", "model.positions", "rotary"},
    {"absolute learned_absolute", "model.positions", "learned"},
    {"sin sine sincos", "model.positions", "sinusoidal"},
    {"layernorm layer_norm", "model.norm_kind", "layer"},
    {"rmsnorm rms_norm", "model.norm_kind", "rms"},
    {"prenorm pre_ln", "model.norm", "pre"},
    {"postnorm post_ln", "model.norm", "post"},
    {"swish", "model.activation", "silu"},
    {"gelu_new gelu_pytorch_tanh gelu_fast", "model.activation", "gelu_tanh"},
    {"swiglu",
     "model.activation",
     {},
     "SwiGLU is model.feed_forward_kind: gated with model.activation: silu"},
    {"geglu",
     "model.activation",
     {},
     "GEGLU is model.feed_forward_kind: gated with model.activation: gelu"},
    {"standard", "model.residual", "plain"},
    {"revnet", "model.residual", "reversible"},
    {"act", "model.halting", "adaptive"},
    {"float16 fp16 half", "precision.compute", "f16"},
    {"bfloat16", "precision.compute", "bf16"},
    {"fp32 f32 float", "precision.compute", "float32"},
    {"fp64 f64 double", "precision.compute", "float64"},
    {"bfloat16", "precision.gradient_reduction", "bf16"},
    {"causal_lm clm lm language_modeling text_generation", "run.task", "language_model"},
    {"seq2seq summarization seq2seq_lm machine_translation", "run.task", "translation"},
    {"token_classification ner pos", "run.task", "tagging"},
    {"sequence_classification text_classification image_classification",
     "run.task",
     "classification"},
    {"image_generation", "run.task", "pixels"},
    {"behavior_cloning imitation", "run.task", "recall"},
    {"ppo rl reinforcement_learning", "run.task", "reinforcement"},
    {"gpt gpt2 llama causal", "model.family", "decoder"},
    {"bert vit roberta", "model.family", "encoder"},
    {"bart t5 transformer seq2seq", "model.family", "encoder_decoder"},
    {"gpu nvidia", "run.device", "cuda"},
    {"utf8", "data.tokenizer", "bytes"},
    {"spm", "data.tokenizer", "sentencepiece"},
    {"huggingface hf tokenizers", "data.tokenizer", "tokenizer_json"},
    {"truncate", "data.too_long", "cut"},
    {"skip drop", "data.too_long", "leave_out"},
    {"error", "data.too_long", "refuse"},
    {"wsd", "training.schedule", "warmup_stable_decay"},
    {"noam inverse_square_root", "training.schedule", "inverse_sqrt"},
    {"cosine_annealing cosine_with_warmup", "training.schedule", "cosine"},
    {"adamw_torch adam_w fused_adam", "training.optimizer.kind", "adamw"},
    {"full", "memory.recompute", "layer"},
    {"selective", "memory.recompute", "attention"},
    {"max", "model.pooling", "maximum"},
    {"cls cls_token", "model.pooling", "first"},
    {"avg average", "model.pooling", "mean"},

    {"flash flash_attention flash_attn use_flash_attention sdpa xformers "
     "memory_efficient_attention",
     "",
     {},
     "attention is always computed in tiles, as FlashAttention does: no key is needed"},
    {"nucleus nucleus_sampling top_p",
     "",
     {},
     "nucleus sampling is an option of the command: longspan generate --top-p"},
    {"top_k", "", {}, "it is an option of the command: longspan generate --top-k"},
    {"num_beams beam_size beam_search",
     "",
     {},
     "beam search is an option of the commands: longspan generate --beam, longspan evaluate "
     "--beam"},
    {"max_new_tokens", "", {}, "it is an option of the command: longspan generate --tokens"},
    {"world_size num_gpus nproc nproc_per_node num_processes num_nodes nnodes devices",
     "",
     {},
     "the number of ranks is an option of the command: longspan run -n RANKS"},
    {"torch_compile compile use_cache",
     "",
     {},
     "generate always caches keys and values, and nothing is compiled: no key is needed"},
};

constexpr FieldName names_of_options[] = {
    {"fit finetune fine_tune resume pretrain sft", "train"},
    {"eval test validate benchmark perplexity", "evaluate"},
    {"predict sample inference infer translate chat serve", "generate"},
    {"ls runs status", "list"},
    {"diff", "compare"},
    {"logs watch", "tail"},
    {"plot tensorboard", "report"},
    {"estimate", "plan"},
    {"check", "verify"},
    {"show info", "inspect"},
    {"tokenize preprocess", "prepare"},
    {"convert", "import"},
    {"launch mpirun torchrun", "run"},
    {"init new", "config"},

    {"nucleus nucleus_p", "--top-p"},
    {"temp", "--temperature"},
    {"max_new_tokens max_tokens max_length n_predict num_tokens", "--tokens"},
    {"num_beams beam_size beams", "--beam"},
    {"num_samples num_return_sequences n_samples", "--samples"},
    {"nbest num_hypotheses", "--n-best"},
    {"do_sample sampling", "--sample"},
    {"lenpen", "--length-penalty"},
    {"source src in infile", "--input"},
    {"target output_dir out_dir out outfile save_dir model_prefix", "--output"},
    {"output output_dir out_dir out", "--to"},
    {"vocab_size", "--vocabulary"},
    {"model_type", "--kind"},
    {"special_tokens user_defined_symbols control_symbols", "--special"},
    {"pre_tokenizer", "--cut"},
    {"nproc np n_ranks num_processes world_size gpus nproc_per_node", "--ranks"},
    {"override config_override", "--set"},
    {"ckpt step", "--checkpoint"},
    {"batch_size bs", "--batch"},
    {"seq_length seq_len block_size context_length", "--segment"},
    {"mem_len", "--memory"},
    {"torch_dtype precision", "--dtype"},
    {"random_seed manual_seed", "--seed"},
    {"dataset file", "--data"},
    {"max_shard_size", "--shard"},
};

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }
std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Small letters, underscores for hyphens, none at the beginning.
std::string normal(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (!(result.empty() && (c == '-' || c == '_'))) result += c == '-' ? '_' : small(c);
  return result;
}

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

NameMatch match_name(const std::string& written, std::string_view name) {
  using enum NameMatch;
  if (name.find('.') != std::string_view::npos) {
    const std::string ending = fmt::format(".{}", name);
    return written == name || written.ends_with(ending) ? whole : none;
  }
  const std::string leaf(leaf_of(written));
  if (without_underscores(leaf) == without_underscores(std::string(name))) return whole;
  if (name.starts_with(leaf + "_")) return beginning;
  return fmt::format("_{}_", leaf).find(fmt::format("_{}_", name)) != std::string::npos ? within
                                                                                        : none;
}

bool is_among(std::string_view key, std::span<const std::string> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

std::string meant(std::string_view key) { return fmt::format("; did you mean \"{}\"?", key); }

// The entry that `written` matches so at least, of those for a key among `keys` or for none: the
// best, of several that of the same section, else the first.
const FieldName* entry_named(std::string_view written,
                             std::span<const std::string> keys,
                             NameMatch least) {
  const FieldName* best = nullptr;
  std::pair<NameMatch, bool> best_match = {NameMatch::none, false};
  for (const FieldName& entry : field_names()) {
    if (!entry.value.empty() || (!entry.key.empty() && !is_among(entry.key, keys))) continue;
    if (!entry.note.empty() && !entry.key.empty()) continue;  // of a value
    const std::pair found = {match(written, entry), section_of(entry.key) == section_of(written)};
    if (found.first < least || found <= best_match) continue;
    best_match = found;
    best = &entry;
  }
  return best;
}

std::string hint_of(const FieldName& entry) {
  return entry.note.empty() ? meant(entry.key) : fmt::format("; {}", entry.note);
}

// The key whose last part is near to that of `written`; "" where none is.
std::string key_of_near_leaf(std::string_view written, std::span<const std::string> keys) {
  constexpr std::size_t shortest = 6;  // of less, too much is near
  const std::string_view leaf = leaf_of(written);
  if (leaf.size() < shortest) return "";
  std::vector<std::string> leaves;
  for (const std::string& key : keys) leaves.emplace_back(leaf_of(key));
  const auto place = std::ranges::find(leaves, nearest(leaf, leaves));
  if (place != leaves.end()) return keys[static_cast<std::size_t>(place - leaves.begin())];
  // A name of the field that was misspelt.
  std::vector<std::string> names;
  std::vector<std::string_view> targets;
  for (const FieldName& entry : field_names()) {
    if (entry.key.empty() || !entry.value.empty() || !is_among(entry.key, keys)) continue;
    for (const std::string_view name : words_of(entry.names)) {
      names.emplace_back(name);
      targets.push_back(entry.key);
    }
  }
  const auto named = std::ranges::find(names, nearest(leaf, names));
  return named == names.end()
             ? ""
             : std::string(targets[static_cast<std::size_t>(named - names.begin())]);
}

}  // namespace

std::span<const FieldName> field_names() { return names_of_keys; }
std::span<const FieldName> option_names() { return names_of_options; }

NameMatch match(std::string_view written, const FieldName& entry) {
  NameMatch best = NameMatch::none;
  if (written.empty() || written.size() > longest_name) return best;
  const std::string normal_word = normal(written);
  for (const std::string_view name : words_of(entry.names))
    best = std::max(best, match_name(normal_word, name));
  return best;
}

std::string field_hint(std::string_view written, std::span<const std::string> keys) {
  const FieldName* const entry = entry_named(written, keys, NameMatch::whole);
  return entry == nullptr ? "" : hint_of(*entry);
}

std::string key_hint(std::string_view written, std::span<const std::string> keys) {
  const bool has_leaf = std::ranges::any_of(
      keys, [&](const std::string& key) { return leaf_of(key) == leaf_of(written); });
  if (!has_leaf)
    if (std::string hint = field_hint(written, keys); !hint.empty()) return hint;
  if (const std::string near = nearest(written, keys); !near.empty()) return meant(near);
  if (const FieldName* entry = entry_named(written, keys, NameMatch::within))
    return hint_of(*entry);
  const std::string near = key_of_near_leaf(written, keys);
  return near.empty() ? "" : meant(near);
}

std::string value_hint(std::string_view key,
                       std::string_view written,
                       std::span<const std::string> choices) {
  for (const FieldName& entry : field_names()) {
    if (entry.key != key || match(written, entry) != NameMatch::whole) continue;
    if (!entry.note.empty()) return fmt::format("; {}", entry.note);
    if (is_among(entry.value, choices)) return meant(entry.value);
  }
  const std::string near = nearest(written, choices);
  return near.empty() ? "" : meant(near);
}

bool begins_word(std::string_view text, std::string_view word) {
  const auto is_part = [](char c) {
    return (small(c) >= 'a' && small(c) <= 'z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t i = 0; i + word.size() <= text.size(); ++i) {
    if (i > 0 && is_part(text[i - 1])) continue;
    if (std::ranges::equal(text.substr(i, word.size()), word, {}, small, small)) return true;
  }
  return false;
}

}  // namespace longspan
