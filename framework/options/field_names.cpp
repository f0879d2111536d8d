#include "framework/options/field_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/core/quote.h"

namespace longspan {
namespace {

// Longer words match nothing and are slow to compare.
constexpr std::size_t max_name_length = 200;

// One line per key. A name with a dot denotes a key in a section: "norm.eps".
constexpr FieldName names_of_keys[] = {
    {"output_dir out_dir save_dir logdir checkpoint.dir checkpoint_dir", "run.output_dir"},
    {"run.path checkpoint.path checkpoint.save", "run.output_dir"},
    {"random_seed manual_seed", "run.seed"},
    {"num_threads omp_num_threads", "run.num_threads"},
    {"accelerator", "run.device"},
    {"collective_timeout_seconds ddp_timeout timeout", "run.collective_timeout_seconds"},
    {"model.type model_type architecture arch", "model.family"},
    {"vocab_size n_vocab", "model.vocab_size"},
    {"num_hidden_layers num_layers n_layer n_layers depth decoder_layers",
     "model.num_hidden_layers"},
    {"hidden_size d_model n_embd embed_dim embedding_dim hidden_dim dim model_dim",
     "model.hidden_size"},
    {"num_attention_heads n_head n_heads num_heads attention_heads", "model.num_attention_heads"},
    {"head_dim d_head d_kv kv_channels", "model.head_dim"},
    {"num_key_value_heads num_query_groups n_kv_heads kv_heads gqa mqa",
     "model.num_key_value_heads"},
    {"qk_norm qk_layernorm", "model.attention.qk_norm"},
    {"attn_logit_softcapping logit_softcapping", "model.attention.logit_softcapping"},
    {"intermediate_size d_ff ffn_dim ffn_hidden_size n_inner d_inner mlp_dim",
     "model.intermediate_size"},
    {"mlp_bias ffn_bias mlp.bias ffn.bias", "model.mlp_bias"},
    {"attention_bias attn_bias qkv_bias", "model.attention.bias"},
    {"use_bias model.bias add_bias_linear disable_bias_linear",
     "",
     {},
     "set model.attention.bias to [] and model.mlp_bias to false for a model without biases"},
    {"attention.scale", "model.attention.scale_attn_weights"},
    {"lsh.rounds", "model.attention.lsh.num_hashes"},
    {"routing.decay", "model.attention.routing.ema_decay"},
    {"data.dtype", "data.token_dtype"},
    {"train_files data_files", "data.train"},
    {"data.path", "data.train"},
    {"activation_function act_fn nonlinearity", "model.activation"},
    {"hidden_act",
     "",
     {},
     "did you mean \"model.activation\"? A gated silu, as in Llama, is swiglu there"},
    {"swiglu geglu reglu gated_linear_unit glu",
     "",
     {},
     "set model.activation to swiglu, geglu or reglu"},
    {"group_query_attention", "", {}, "set model.num_key_value_heads"},
    {"untie_embeddings_and_output_weights", "", {}, "set model.tie_word_embeddings to false"},
    {"use_parallel_residual parallel_residual", "model.use_parallel_residual"},
    {"norm.position norm_first pre_ln post_ln normalize_before", "model.norm.position"},
    {"norm.kind norm.type normalization norm_type", "model.norm.type"},
    {"norm.epsilon norm.eps layer_norm_eps rms_norm_eps norm_eps layernorm_epsilon",
     "model.norm.eps"},
    {"attention.attention_dropout attention_probs_dropout_prob attn_pdrop attn_dropout",
     "model.attention.dropout"},
    {"hidden_dropout_prob resid_pdrop embd_pdrop dropout_rate dropout_prob", "model.dropout"},
    {"attention.type attention.types attention.kind layer_types attention_type attn_type "
     "attn_implementation",
     "model.attention.layer_types"},
    {"attention.window attention.window_size sliding_window window_size attention_window_size",
     "model.attention.sliding_window"},
    {"tie_word_embeddings tie_embeddings weight_tying share_decoder_input_output_embed",
     "model.tie_word_embeddings"},
    {"initializer_range init_std init_method_std", "model.initializer_range"},
    {"final_logit_softcapping", "model.final_logit_softcapping"},
    {"mem_len memory_length", "model.mem_len"},
    {"clamp_len", "model.clamp_len"},
    {"lm_head_bias", "model.lm_head_bias"},
    {"max_span attn_span adapt_span", "model.adaptive_span.max_span"},
    {"position.type positions.type position_embedding_type positional_encoding pos_encoding "
     "position_embeddings pos_emb",
     "model.position_embedding_type"},
    {"max_position_embeddings n_positions max_positions max_seq_len",
     "model.max_position_embeddings"},
    {"relative_attention_max_distance", "model.relative_attention_max_distance"},
    {"relative_attention_num_buckets", "model.relative_attention_num_buckets"},
    {"rope.base rope_theta rope.theta rotary_emb_base", "model.rope.theta"},
    {"partial_rotary_factor rotary_pct rotary_percent", "model.rope.partial_rotary_factor"},
    {"rotary_interleaved rope_interleaved", "model.rope.interleaved"},
    {"rope_scaling rope_type", "model.rope.scaling.type"},
    {"rope_scaling_factor", "model.rope.scaling.factor"},
    {"num_future_tokens multi_token_prediction mtp", "model.num_future_tokens"},
    {"num_encoder_layers enc_layers", "model.num_encoder_layers"},
    {"scale_embedding scale_embeddings", "model.scale_embedding"},
    {"layernorm_embedding", "model.layernorm_embedding"},
    {"act_loss_weight ponder_cost", "model.act.loss_weight"},
    {"num_rec_steps num_recurrent_steps", "model.recurrence.num_steps"},
    {"pointer_generator copy_mechanism", "model.use_pointer_generator"},
    {"type_vocab_size token_type_ids", "model.type_vocab_size"},
    {"patch_size", "model.patch_size"},
    {"image_mean", "model.image_mean"},
    {"image_std", "model.image_std"},
    {"use_crf crf", "model.use_crf"},
    {"train_file dataset dataset_path train_data train_path data_path", "data.train"},
    {"validation_file validation_path validation_data valid_path valid_data valid_data_path "
     "val_path "
     "val_data val_file eval_path eval_data eval_file eval_dataset dev",
     "data.validation"},
    {"test_file test_path", "data.test"},
    {"target_lang tgt_file path_tgt", "data.train_target"},
    {"tokenizer_type tokenizer.type", "data.tokenizer.type"},
    {"tokenizer.path tokenizer.file tokenizer_file tokenizer_path tokenizer_name vocab_file "
     "spm_model merges_file",
     "data.tokenizer.model"},
    {"tokenizer_model_type", "data.tokenizer.model_type"},
    {"cache_dir", "data.cache_dir"},
    {"batch_size global_batch_size train_batch_size "
     "bs",
     "data.global_batch_size"},
    {"seq_length seq_len sequence_length block_size context_length ctx_len bptt",
     "data.seq_length"},
    {"max_tokens max_tokens_per_batch mini_batch_words", "data.global_batch_tokens"},
    {"max_length max_source_length", "data.max_length"},
    {"truncation overlong_examples", "data.overlong_examples"},
    {"pad_to_multiple_of", "data.pad_to_multiple_of"},
    {"prefetch prefetch_factor", "data.prefetch_factor"},
    {"num_workers dataloader_num_workers",
     "",
     {},
     "remove the key; data.prefetch_factor sets the number of batches loaded in advance"},
    {"spm_alpha sentencepiece_alphas bpe_dropout", "data.tokenizer.sampling_alpha"},
    {"reset_attention_mask document_mask reset_position_ids",
     "data.documents.reset_attention_mask"},
    {"text_column dataset_text_field json_keys", "data.documents.text_field"},
    {"eos_token eos eod_token", "data.documents.end_token"},
    {"append_eod", "", {}, "set data.documents.end_token to a token or its id"},
    {"gamma", "ppo.gamma"},
    {"gae_lambda", "ppo.gae_lambda"},
    {"clip_range clip_eps", "ppo.clip_range"},
    {"vf_coef value_loss_coef", "ppo.vf_coef"},
    {"ent_coef entropy_coef", "ppo.ent_coef"},
    {"num_minibatches", "ppo.num_minibatches"},
    {"training.num_steps max_steps max_iters train_iters", "training.max_steps"},
    {"num_train_epochs num_epochs epochs max_epochs",
     "",
     {},
     "set training.max_steps, a number of updates"},
    {"gradient_accumulation_steps grad_accum accumulate_grad_batches update_freq",
     "training.gradient_accumulation_steps"},
    {"max_grad_norm gradient_clip_val grad_clip clip_grad gradient_clipping",
     "training.max_grad_norm"},
    {"training.grad_clip", "training.max_grad_norm"},
    {"eval_steps eval_interval eval_every val_check_interval validation_interval "
     "validation.interval",
     "training.validation.interval"},
    {"eval_iters limit_val_batches", "training.validation.max_batches"},
    {"init_from pretrained finetune_from load_checkpoint initial_load_path",
     "training.init_from.path"},
    {"lora lora_r lora_rank lora.rank peft", "training.lora.rank"},
    {"lora_alpha lora.alpha", "training.lora.alpha"},
    {"lora_dropout", "training.lora.dropout"},
    {"target_modules", "training.lora.target_modules"},
    {"modules_to_save", "training.lora.modules_to_save"},
    {"requires_grad freeze freeze_parameters", "training.frozen_parameters"},
    {"lr_scheduler lr_scheduler_type lr_schedule lr_decay_style scheduler",
     "training.lr_scheduler.type"},
    {"lr max_lr peak_lr base_lr learningrate", "training.learning_rate"},
    {"min_lr min_learning_rate eta_min final_lr", "training.lr_scheduler.min_lr"},
    {"min_lr_rate min_lr_ratio",
     "",
     {},
     "set training.lr_scheduler.min_lr, a rate and not a fraction of training.learning_rate"},
    {"warmup_steps warmup_iters num_warmup_steps warmup_updates lr_warmup_steps lr_warmup_iters",
     "training.lr_scheduler.warmup_steps"},
    {"warmup_ratio lr_warmup_fraction",
     "",
     {},
     "set training.lr_scheduler.warmup_steps, a number of updates"},
    {"warmup_init_lr lr_warmup_init", "training.lr_scheduler.warmup_init_lr"},
    {"lr_decay_iters num_training_steps total_num_update", "training.lr_scheduler.total_steps"},
    {"num_decay_steps lr_wsd_decay_iters", "training.lr_scheduler.decay_steps"},
    {"optim optimizer optimizer.type optimizer.name", "training.optimizer.type"},
    {"adam_beta1", "training.optimizer.beta1"},
    {"adam_beta2", "training.optimizer.beta2"},
    {"eps adam_epsilon adam_eps", "training.optimizer.eps"},
    {"weight_decay wd l2", "training.optimizer.weight_decay"},
    {"data_parallel_size dp dp_size ddp data_parallel", "parallel.data_parallel_size"},
    {"tensor_parallel_size tensor_model_parallel_size tp tp_size tensor_parallel model_parallel",
     "parallel.tensor_parallel_size"},
    {"context_parallel_size cp cp_size context_parallel ring_attention",
     "parallel.context_parallel_size"},
    {"sequence_parallel", "parallel.sequence_parallel"},
    {"zero_stage zero_optimization fsdp sharding distributed_optimizer", "parallel.zero_stage"},
    {"bucket_cap_mb", "parallel.bucket_cap_mb"},
    {"backend dist_backend gpu_backend ddp_backend", "parallel.gpu_backend"},
    {"gradient_checkpointing activation_checkpointing recompute_granularity checkpoint_activations",
     "memory.recompute_granularity"},
    {"chunk_size_feed_forward", "memory.num_feed_forward_chunks"},
    {"num_output_chunks", "memory.num_loss_chunks"},
    {"dtype torch_dtype compute_dtype mixed_precision amp fp16 bf16", "precision.compute_dtype"},
    {"params_dtype param_dtype master_dtype master_weights",
     "",
     {},
     "set precision.compute_dtype, the data type of the forward and backward pass, as weights are "
     "stored in float32"},
    {"reduce_dtype grad_reduce_dtype", "precision.grad_reduce_dtype"},
    {"allow_tf32", "precision.allow_tf32"},
    {"init_scale initial_scale_power", "precision.loss_scale.init_scale"},
    {"growth_interval", "precision.loss_scale.growth_interval"},
    {"checkpoint.interval save_steps save_interval save_every checkpoint_interval",
     "checkpoint.save_interval"},
    {"save_total_limit keep_latest_k keep_last", "checkpoint.keep_latest"},
    {"metric_for_best_model best_metric load_best_model_at_end best_checkpoint_metric",
     "checkpoint.best_metric"},
    {"async_save async_mode", "checkpoint.async_save"},
    {"resume_from_checkpoint resume_from", "checkpoint.resume_from"},
    {"checkpoint.load", "checkpoint.resume_from"},
    {"metrics.interval logging_steps log_interval log_every log_freq", "metrics.log_interval"},
    {"enable_tensorboard", "metrics.enable_tensorboard"},
    {"report_to wandb mlflow", "metrics.export"},

    {"rotary rotary_embedding", "model.position_embedding_type", "rope"},
    {"absolute learned_absolute", "model.position_embedding_type", "learned"},
    {"sin sine sincos", "model.position_embedding_type", "sinusoidal"},
    {"causal full_attention softmax", "model.attention.layer_types", "full"},
    {"local sliding sliding_window_attention", "model.attention.layer_types", "sliding_window"},
    {"global longformer bigbird", "model.attention.layer_types", "global_local"},
    {"reformer", "model.attention.layer_types", "lsh"},
    {"compressed", "model.attention.layer_types", "memory_compressed"},
    {"random_features random_feature_attention", "model.attention.layer_types", "rfa"},
    {"layer layer_norm", "model.norm.type", "layernorm"},
    {"rms rms_norm", "model.norm.type", "rmsnorm"},
    {"power power_norm", "model.norm.type", "powernorm"},
    {"prenorm pre_ln", "model.norm.position", "pre"},
    {"postnorm post_ln", "model.norm.position", "post"},
    {"swish", "model.activation", "silu"},
    {"gelu_new gelu_pytorch_tanh gelu_fast", "model.activation", "gelu_tanh"},
    {"plain", "model.residual.type", "standard"},
    {"revnet", "model.residual.type", "reversible"},
    {"concatenate", "model.residual.reversible_output", "concat"},
    {"adaptive", "model.recurrence.type", "act"},
    {"f16 fp16 half", "precision.compute_dtype", "float16"},
    {"bf16", "precision.compute_dtype", "bfloat16"},
    {"fp32 f32 float", "precision.compute_dtype", "float32"},
    {"fp64 f64 double", "precision.compute_dtype", "float64"},
    {"bf16", "precision.grad_reduce_dtype", "bfloat16"},
    {"fp32 f32 float", "precision.grad_reduce_dtype", "float32"},
    {"causal_lm clm lm language_model text_generation", "run.task", "language_modeling"},
    {"seq2seq summarization seq2seq_lm machine_translation", "run.task", "translation"},
    {"token_classification ner pos", "run.task", "tagging"},
    {"sequence_classification text_classification image_classification",
     "run.task",
     "classification"},
    {"pixels", "run.task", "image_generation"},
    {"recall imitation", "run.task", "behavior_cloning"},
    {"ppo rl reinforcement", "run.task", "reinforcement_learning"},
    {"gpt gpt2 llama causal", "model.family", "decoder"},
    {"bert vit roberta", "model.family", "encoder"},
    {"bart t5 transformer seq2seq", "model.family", "encoder_decoder"},
    {"causal", "model.decoder_type", "autoregressive"},
    {"masked nat", "model.decoder_type", "non_autoregressive"},
    {"random mask_predict", "model.nat.objective", "cmlm"},
    {"all", "model.nat.objective", "vanilla"},
    {"refined", "model.nat.objective", "iterative"},
    {"mix", "model.cross_attention.layer_mapping", "transparent"},
    {"categories", "model.pixel_distribution", "categorical"},
    {"mixtures", "model.pixel_distribution", "logistic_mixture"},
    {"gpu nvidia", "run.device", "cuda"},
    {"bytes utf8", "data.tokenizer.type", "byte"},
    {"characters character", "data.tokenizer.type", "char"},
    {"spm", "data.tokenizer.type", "sentencepiece"},
    {"tokenizer_json hf tokenizers", "data.tokenizer.type", "huggingface"},
    {"ids", "data.tokenizer.type", "none"},
    {"16 u16", "data.token_dtype", "uint16"},
    {"32 u32", "data.token_dtype", "uint32"},
    {"two", "data.tag_format", "tsv"},
    {"upos", "data.tag_format", "conllu_upos"},
    {"xpos", "data.tag_format", "conllu_xpos"},
    {"cut", "data.overlong_examples", "truncate"},
    {"leave_out drop", "data.overlong_examples", "skip"},
    {"refuse", "data.overlong_examples", "error"},
    {"file", "data.documents.sample_by", "document"},
    {"wsd", "training.lr_scheduler.type", "warmup_stable_decay"},
    {"noam inverse_square_root", "training.lr_scheduler.type", "inverse_sqrt"},
    {"cosine_annealing cosine_with_warmup", "training.lr_scheduler.type", "cosine"},
    {"hold", "training.lr_scheduler.after_end", "constant"},
    {"square_root sqrt", "training.lr_scheduler.decay_type", "1-sqrt"},
    {"adamw_torch adam_w fused_adam", "training.optimizer.type", "adamw"},
    {"schedule_free", "training.optimizer.type", "schedule_free_adamw"},
    {"layer", "memory.recompute_granularity", "full"},
    {"attention", "memory.recompute_granularity", "selective"},
    {"maximum", "model.pooling", "max"},
    {"cls cls_token", "model.pooling", "first"},
    {"avg average", "model.pooling", "mean"},

    {"head none",
     "model.attention.scale_attn_weights",
     {},
     "set it to true to divide by the square root of model.head_dim, else to false"},
    {"serial", "model.use_parallel_residual", {}, "set it to false"},
    {"parallel", "model.use_parallel_residual", {}, "set it to true"},
    {"halves", "model.rope.interleaved", {}, "set it to false"},
    {"neighbours neighbors", "model.rope.interleaved", {}, "set it to true"},
    {"same", "training.init_from.resize_vocab", {}, "set it to false"},
    {"grow", "training.init_from.resize_vocab", {}, "set it to true"},
    {"shared", "model.share_encoder_decoder_embeddings", {}, "set it to true"},
    {"apart", "model.share_encoder_decoder_embeddings", {}, "set it to false"},
    {"crf", "model.use_crf", {}, "set it to true"},
    {"softmax", "model.use_crf", {}, "set it to false"},
    {"bpe unigram wordpiece",
     "data.tokenizer.type",
     {},
     "set it to sentencepiece or huggingface, and data.tokenizer.model_type to this value"},
    {"jsonl json", "data.format", {}, "set it to text, which includes .jsonl and .json files"},
    {"csv txt", "data.format", "text"},
    {"cosine_with_min_lr", "training.lr_scheduler.type", "cosine"},
    {"block uniform true", "memory.recompute_granularity", "full"},

    {"micro_batch_size per_device_train_batch_size",
     "",
     {},
     "set data.global_batch_size, which is divided by parallel.data_parallel_size and "
     "training.gradient_accumulation_steps"},
    {"betas adam_betas", "", {}, "set training.optimizer.beta1 and training.optimizer.beta2"},
    {"packing pack",
     "",
     {},
     "remove the key, as sequences are always packed to data.seq_length; set "
     "data.documents.reset_attention_mask to mask other documents"},
    {"pipeline_parallel_size pipeline_model_parallel_size pp pp_size",
     "",
     {},
     "remove the key, as pipeline parallelism is not supported"},
    {"flash flash_attention flash_attn use_flash_attention sdpa xformers "
     "memory_efficient_attention",
     "",
     {},
     "remove the key, as attention is always computed in tiles, as in FlashAttention"},
    {"nucleus nucleus_sampling top_p",
     "",
     {},
     "use the option of the command: longspan generate --top-p"},
    {"top_k", "", {}, "use the option of the command: longspan generate --top-k"},
    {"num_beams beam_size beam_search",
     "",
     {},
     "use the option of the commands: longspan generate --beam, longspan evaluate --beam"},
    {"max_new_tokens", "", {}, "use the option of the command: longspan generate --max-new-tokens"},
    {"world_size num_gpus nproc nproc_per_node num_processes num_nodes nnodes devices",
     "",
     {},
     "use the option of the command: longspan launch -n RANKS"},
    {"torch_compile compile use_cache",
     "",
     {},
     "remove the key, as generate always caches keys and values and nothing is compiled"},
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
    {"prepare tokenize preprocess preprocess_data", "tokenize-data"},
    {"convert", "import"},
    {"run mpirun torchrun", "launch"},
    {"attention attention_weights", "attention-maps"},
    {"init new", "config"},

    {"nucleus nucleus_p", "--top-p"},
    {"temp", "--temperature"},
    {"tokens max_tokens max_length n_predict num_tokens", "--max-new-tokens"},
    {"tokens max_new_tokens max_length num_tokens", "--max-tokens"},
    {"num_beams beam_size beams", "--beam"},
    {"samples num_return_sequences n_samples", "--num-samples"},
    {"nbest num_hypotheses", "--n-best"},
    {"do_sample sampling", "--sample"},
    {"lenpen", "--length-penalty"},
    {"source src in infile", "--input"},
    {"target output_dir out_dir out outfile save_dir model_prefix", "--output"},
    {"to output out_dir out save_dir", "--output-dir"},
    {"vocabulary", "--vocab-size"},
    {"kind", "--model-type"},
    {"special user_defined_symbols control_symbols", "--special-tokens"},
    {"cut", "--pre-tokenizer"},
    {"nproc np n_ranks num_processes world_size gpus nproc_per_node", "--ranks"},
    {"override config_override", "--set"},
    {"ckpt step", "--checkpoint"},
    {"batch bs", "--batch-size"},
    {"segment seq_len block_size context_length", "--seq-length"},
    {"memory", "--mem-len"},
    {"memory", "--memory-per-rank"},
    {"flops", "--flops-per-rank"},
    {"bandwidth", "--bandwidth-per-rank"},
    {"machine", "--machine-profile"},
    {"torch_dtype precision", "--dtype"},
    {"random_seed manual_seed", "--seed"},
    {"dataset file", "--data"},
    {"shard", "--max-shard-size"},
    {"base base_model_name_or_path", "--base-model"},
    {"adapters", "--adapter-only"},
    {"part", "--shard-mib"},
    {"score", "--merge-score"},
    {"ties", "--tie-break"},
    {"iterations iter_decode_max_iter", "--max-iterations"},
    {"longest_beyond max_len_b", "--max-extra-length"},
    {"images", "--image-sheet"},
    {"complete", "--inpaint"},
    {"by_position", "--loss-by-position"},
    {"needles", "--needle-in-haystack"},
    {"depths", "--num-depths"},
    {"recompute_context window", "--sliding-window"},
    {"profile", "--profile-steps"},
    {"watch", "--serve"},
    {"replace force", "--overwrite"},
    {"configuration", "--config"},
    {"into", "--output-dir"},
    {"new", "--template"},
};

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }
std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Normalizes to lowercase, with underscores for hyphens and without leading ones.
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

// Returns the best entry, among those for `keys` or without a key, that matches `written` at least
// as well as required. Ties prefer the section of `written`, then the first entry.
const FieldName* find_entry(std::string_view written,
                            std::span<const std::string> keys,
                            NameMatch least) {
  const FieldName* best = nullptr;
  std::pair<NameMatch, bool> best_match = {NameMatch::none, false};
  for (const FieldName& entry : field_names()) {
    if (!entry.value.empty() || (!entry.key.empty() && !is_among(entry.key, keys))) continue;
    if (!entry.note.empty() && !entry.key.empty()) continue;  // the note concerns a value
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

// Returns the key with that last component, or "". Ties prefer the section of `written`, then the
// shallowest, then the first key.
std::string key_of_leaf(std::string_view leaf,
                        std::string_view written,
                        std::span<const std::string> keys) {
  const auto rank = [&](const std::string& key) {
    return std::pair(section_of(key) != section_of(written), std::ranges::count(key, '.'));
  };
  const std::string* best = nullptr;
  for (const std::string& key : keys)
    if (leaf_of(key) == leaf && (best == nullptr || rank(key) < rank(*best))) best = &key;
  return best == nullptr ? "" : *best;
}

// Returns whether `written` ends with a dotted name, such as "norm.eps".
bool has_dotted_name(std::string_view written) {
  const std::string normal_word = normal(written);
  for (const FieldName& entry : field_names())
    for (const std::string_view name : words_of(entry.names))
      if (name.find('.') != std::string_view::npos &&
          match_name(normal_word, name) == NameMatch::whole)
        return true;
  return false;
}

// Returns the key of the same section whose last component is similar to that of `written`.
std::string near_sibling(std::string_view written, std::span<const std::string> keys) {
  const std::string_view parent = written.substr(0, written.size() - leaf_of(written).size());
  std::vector<std::string> leaves;
  for (const std::string& key : keys)
    if (key.size() - leaf_of(key).size() == parent.size() && key.starts_with(parent))
      leaves.emplace_back(leaf_of(key));
  const std::string near = closest_match(leaf_of(written), leaves);
  return near.empty() ? "" : fmt::format("{}{}", parent, near);
}

// Returns the key whose last component is similar to that of `written`, or "".
std::string key_of_near_leaf(std::string_view written, std::span<const std::string> keys) {
  constexpr std::size_t shortest = 6;  // shorter names are similar to too many keys
  const std::string_view leaf = leaf_of(written);
  if (leaf.size() < shortest) return "";
  std::vector<std::string> leaves;
  for (const std::string& key : keys) leaves.emplace_back(leaf_of(key));
  if (const std::string near = closest_match(leaf, leaves); !near.empty())
    return key_of_leaf(near, written, keys);
  // A misspelled name of the field.
  std::vector<std::string> names;
  std::vector<std::string_view> targets;
  for (const FieldName& entry : field_names()) {
    if (entry.key.empty() || !entry.value.empty() || !is_among(entry.key, keys)) continue;
    for (const std::string_view name : words_of(entry.names)) {
      names.emplace_back(name);
      targets.push_back(entry.key);
    }
  }
  const auto named = std::ranges::find(names, closest_match(leaf, names));
  return named == names.end()
             ? ""
             : std::string(targets[static_cast<std::size_t>(named - names.begin())]);
}

}  // namespace

std::span<const FieldName> field_names() { return names_of_keys; }
std::span<const FieldName> option_names() { return names_of_options; }

NameMatch match(std::string_view written, const FieldName& entry) {
  NameMatch best = NameMatch::none;
  if (written.empty() || written.size() > max_name_length) return best;
  const std::string normal_word = normal(written);
  for (const std::string_view name : words_of(entry.names))
    best = std::max(best, match_name(normal_word, name));
  return best;
}

std::string field_hint(std::string_view written, std::span<const std::string> keys) {
  const FieldName* const entry = find_entry(written, keys, NameMatch::whole);
  return entry == nullptr ? "" : hint_of(*entry);
}

std::string key_hint(std::string_view written, std::span<const std::string> keys) {
  if (std::string hint = renamed_hint(written); !hint.empty()) return hint;
  const std::string same = key_of_leaf(leaf_of(written), written, keys);
  const auto is_same_key = [&](const std::string& key) {
    return leaf_of(key) == leaf_of(written) && section_of(key) == section_of(written);
  };
  const auto count_here = std::ranges::count_if(keys, is_same_key);
  if (count_here != 1 || has_dotted_name(written))
    if (std::string hint = field_hint(written, keys); !hint.empty()) return hint;
  if (count_here > 0) return meant(same);
  if (const std::string near = near_sibling(written, keys); !near.empty()) return meant(near);
  const bool has_section = std::ranges::any_of(
      keys, [&](const std::string& key) { return section_of(key) == section_of(written); });
  if (!has_section)
    if (const std::string near = closest_match(written, keys); !near.empty()) return meant(near);
  if (const FieldName* entry = find_entry(written, keys, NameMatch::within)) return hint_of(*entry);
  if (!same.empty()) return meant(same);
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
  const std::string near = closest_match(written, choices);
  return near.empty() ? "" : meant(near);
}

bool starts_word_piece(std::string_view text, std::string_view word) {
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
