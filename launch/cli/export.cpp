#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/interop/adapters.h"
#include "framework/interop/label_names.h"
#include "framework/interop/transfer.h"
#include "framework/interop/weights_folder.h"
#include "framework/tasks/labeled_task.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/resume.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/exported_tokenizer.h"
#include "launch/cli/loaded_run.h"
#include "launch/cli/model_values.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;
  std::string checkpoint;
  std::string folder;
  std::string dtype;
  double shard_gigabytes = 5;
  bool adapters = false;
  std::string base;
  std::string chat_template;
};

// Keys of `model` that affect training but not the trained model's outputs.
constexpr std::array<std::string_view, 5> of_training = {"model.dropout",
                                                         "model.attention.dropout",
                                                         "model.initializer_range",
                                                         "model.intermediate_losses.schedule",
                                                         "model.num_future_tokens"};

Checkpoint opened(const ExportArguments& arguments, Session& session) {
  const RunLocation location = locate_run(arguments.run);
  if (!location.run)
    throw ConfigurationError("{}: expected a run directory or a checkpoint, found a config",
                             arguments.run);
  std::optional<std::string> named;
  if (location.checkpoint) named = location.checkpoint->string();
  if (!arguments.checkpoint.empty()) named = arguments.checkpoint;
  std::optional<OpenedCheckpoint> found =
      open_checkpoint(named, *location.run, {}, reading_progress(location.run->string(), session));
  if (!found) throw DataError("{}", no_checkpoint_message(*location.run));
  for (std::string& sentence : found->skipped) warn(session, {"skipped: " + sentence});
  return std::move(found->checkpoint);
}

std::unique_ptr<Configuration> trained_configuration(const Checkpoint& checkpoint) {
  const std::string place = (checkpoint.path() / "manifest.json").string();
  if (checkpoint.info().configuration.empty())
    throw DataError("{}: missing configuration of the model", place);
  try {
    return configure({.file = place,
                      .text = checkpoint.info().configuration,
                      .settings = {},
                      .of_another_job = true});
  } catch (const ConfigurationError& error) {
    throw DataError("{}", error.what());
  }
}

// Returns the longest sequence of a model with rotary positions. It is
// model.max_position_embeddings, or else the trained length, the length that its scaling reaches,
// or the imported one.
std::int64_t rotary_positions(const ModelValues& values, const Scalars& scalars) {
  const std::int64_t segment = values.integer("data.seq_length");
  const auto original = static_cast<double>(
      values.integer_or("model.rope.scaling.original_max_position_embeddings", 0));
  // A dynamic scaling starts beyond the original length.
  if (values.is("model.rope.scaling.type", "dynamic")) return static_cast<std::int64_t>(original);
  if (!values.is("model.max_position_embeddings", "none"))
    return std::max(values.integer("model.max_position_embeddings"), segment);
  const double reached = values.number_or("model.rope.scaling.factor", 1) * original;
  const bool is_scaled = !values.is("model.rope.scaling.type", "none") && reached < 1e15;
  return std::max({segment,
                   is_scaled ? static_cast<std::int64_t>(reached) : 0,
                   scalars.get_or<std::int64_t>(import_positions_scalar, 0)});
}

// Sets the sizes of the delta rule projections that default to those of the attention heads.
void set_delta_rule_sizes(const ModelValues& read, std::map<std::string, std::string>& values) {
  const std::string section = "model.attention.delta_rule.";
  if (!values.contains(section + "num_key_heads")) return;
  const std::vector<std::string> types = read.texts("model.attention.layer_types");
  if (std::ranges::count(types, "gated_delta_net") == 0) return;
  const std::int64_t heads = read.integer("model.num_attention_heads");
  const std::int64_t dim =
      read.integer_or("model.head_dim", read.integer("model.hidden_size") / heads);
  const std::int64_t value_heads = read.integer_or(section + "num_value_heads", heads);
  const std::pair<const char*, std::int64_t> sizes[] = {{"num_value_heads", heads},
                                                        {"num_key_heads", value_heads},
                                                        {"key_head_dim", dim},
                                                        {"value_head_dim", dim}};
  // Without any of them, keys and values have the model's numbers of heads.
  const bool has_own = std::ranges::any_of(
      sizes, [&](const auto& size) { return !read.is(section + size.first, "none"); });
  if (!has_own && !read.is("model.num_key_value_heads", "none")) return;
  for (const auto& [name, otherwise] : sizes)
    values[section + name] = fmt::format("{}", read.integer_or(section + name, otherwise));
}

// As above, for the heads of mamba2 layers.
void set_mamba2_heads(const ModelValues& read, std::map<std::string, std::string>& values) {
  const std::string section = "model.attention.mamba2.";
  if (!values.contains(section + "num_heads") || !read.is(section + "num_heads", "none")) return;
  const std::vector<std::string> types = read.texts("model.attention.layer_types");
  if (std::ranges::count(types, "mamba2") == 0) return;
  values[section + "num_heads"] =
      fmt::format("{}", 2 * read.integer("model.hidden_size") / read.integer(section + "head_dim"));
}

// Replaces values that the run derived from its data and other keys by explicit ones, and drops
// defaults.
ModelValues plain_values(const Configuration& configuration, const Checkpoint& checkpoint) {
  auto values = model_values(configuration).all();
  const auto say = [&](const std::string& key, const std::string& weight) {
    if (values.contains(key) && checkpoint.has(weight))
      values[key] = fmt::format("{}", checkpoint.shape_of(weight)[0]);
  };
  say("model.vocab_size", "embedding/weight");
  if (values.contains("model.rope.scaling.type") &&
      values["model.position_embedding_type"] == "rope")
    values["model.max_position_embeddings"] =
        fmt::format("{}", rotary_positions(ModelValues(values), checkpoint.scalars()));
  // For the only stack, or for one of two equal ones.
  for (const std::string stack : {"", "encoder/"}) {
    const std::string table = stack + "positions/weight";
    if (values.contains("model.max_position_embeddings") && checkpoint.has(table))
      values["model.max_position_embeddings"] =
          fmt::format("{}",
                      checkpoint.shape_of(table)[0] -
                          ModelValues(values).integer("model.position_embedding_offset"));
    say("model.intermediate_size", stack + "layers/0/feed_forward/in/weight");
  }
  const ModelValues read(values);
  if (values.contains("model.num_encoder_layers") &&
      read.is("model.num_encoder_layers", read.text("model.num_hidden_layers")))
    values["model.num_encoder_layers"] = "none";
  if (values.contains("model.head_dim") &&
      read.integer_or("model.head_dim", 0) * read.integer("model.num_attention_heads") ==
          read.integer("model.hidden_size"))
    values["model.head_dim"] = "none";
  // In the order that an import produces.
  if (values.contains("model.attention.bias")) {
    const std::vector<std::string> given = read.texts("model.attention.bias");
    std::vector<std::string> biases;
    for (const char* const name : {"query", "key", "value", "out"})
      if (std::ranges::count(given, name) > 0) biases.emplace_back(name);
    values["model.attention.bias"] = fmt::format("[{}]", fmt::join(biases, ", "));
  }
  set_delta_rule_sizes(read, values);
  set_mamba2_heads(read, values);
  if (values.contains("model.num_key_value_heads") &&
      read.is("model.num_key_value_heads", read.text("model.num_attention_heads")))
    values["model.num_key_value_heads"] = "none";
  if (values.contains("model.norm.final") && read.is("model.norm.position", "pre") &&
      read.is("model.norm.final", "true"))
    values["model.norm.final"] = "none";
  return ModelValues(std::move(values));
}

// Returns a message for each key whose value would differ if the written files were imported. Every
// key must yield an equal model.
std::vector<std::string> differences(const ModelValues& run,
                                     const ModelConfig& written,
                                     const Architecture& other) {
  std::vector<std::string> sentences;
  const ImportedConfig read = other.read(written);
  auto settings = read.settings;
  // The ids of a text model are those of a tokenizer that is not read here.
  if (read.image.empty()) {
    settings.emplace_back("data.tokenizer.type", "sentencepiece");
    settings.emplace_back("data.tokenizer.model", "tokenizer.model");
  }
  const ModelValues again =
      model_values(*configure_settings(settings, "configuration of the import"));
  for (const auto& [key, value] : again.all()) {
    if (key != "run.task" && !key.starts_with("model.")) continue;
    // Another key determines its positions.
    if (key == "model.max_position_embeddings" && run.is(key, "none")) continue;
    if (std::ranges::count(other.unused_keys, key) > 0) continue;
    if (std::ranges::count(of_training, key) > 0 || run.is(key, value)) continue;
    sentences.push_back(
        fmt::format("{} requires {}: {}, found {}", other.name, key, value, run.text(key)));
  }
  return sentences;
}

DType requested_dtype(const std::string& name, const Checkpoint& checkpoint) {
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  if (name == "float32") return DType::f32;
  if (name == "float64") return DType::f64;
  for (const CheckpointTensor& weight : weights_of(checkpoint))
    if (weight.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

const char* hf_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      return "float32";
  }
}

// Contents of a config.json.
struct Exported {
  ModelValues values;
  bool is_headless;                       // without an output head
  std::vector<std::string> labels;        // of its output head
  nlohmann::ordered_json special_tokens;  // IDs by the keys of config.json
  std::string type;  // Architecture::model_type that it was imported from; "" otherwise
  DType dtype;
  TokenIds token_ids = {};      // special tokens of sequence-to-sequence models
  std::string generation = {};  // generation_config.json; "": none
};

void write_config(const Architecture& architecture, const Exported& run, const fs::path& path) {
  nlohmann::ordered_json config = {{"architectures", {architecture.model_classes.front()}}};
  config.update(architecture.write(run.values));
  for (const auto& [key, ids] : run.special_tokens.items())
    if (!config.contains(key) || config[key].is_null()) config[key] = ids;
  if (!run.labels.empty()) write_label_names(run.labels, config);
  if (architecture.write_pixels)
    write_text_file(path.parent_path() / pixels_config_name,
                    architecture.write_pixels(run.values).dump(2) + "\n");
  if (!run.token_ids.empty()) write_token_ids(run.token_ids, config);
  if (!run.generation.empty())
    write_text_file(path.parent_path() / generation_config_name, run.generation);
  // Version 5 of transformers reads this name too.
  config["torch_dtype"] = hf_dtype(run.dtype);
  write_text_file(path, config.dump(2) + "\n");
}

// Returns the special tokens of the imported config.json.
nlohmann::ordered_json special_tokens_of(const Scalars& scalars, const std::string& place) {
  const auto text = scalars.get_or<std::string>(special_tokens_scalar, "{}");
  const auto found = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!found.is_object())
    throw DataError("{}: {}: expected a JSON object", place, special_tokens_scalar);
  return found;
}

// Returns the architectures of a family, the one that the run was imported from first.
std::vector<const Architecture*> candidates(const Exported& run) {
  std::vector<const Architecture*> found;
  for (const Architecture& each : architectures())
    if (run.values.is("model.family", each.family) && each.is_headless == run.is_headless &&
        !each.is_import_only)
      found.push_back(&each);
  std::ranges::stable_partition(
      found, [&](const Architecture* each) { return each->model_type == run.type; });
  return found;
}

void remove_configs(const fs::path& path) {
  fs::remove(path);
  fs::remove(path.parent_path() / pixels_config_name);
  fs::remove(path.parent_path() / generation_config_name);
}

// Writes config.json of the first architecture that is an equal model, and returns it. If there is
// none, the error describes the one with the fewest differences.
const Architecture& write_fitting(const Exported& run, const fs::path& path) {
  std::vector<std::string> fewest;
  std::string refusal;  // of the first that does not support the model
  for (const Architecture* const each : candidates(run)) {
    std::vector<std::string> found;
    try {
      write_config(*each, run, path);
      found = differences(run.values, ModelConfig(path), *each);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data && error.code() != ExitCode::configuration) throw;
      // Its config.json cannot represent this model, or not so that an import accepts it.
      if (refusal.empty())
        refusal = fmt::format("{} does not support this model: {}", each->name, error.what());
      remove_configs(path);
      continue;
    }
    if (found.empty()) return *each;
    if (fewest.empty() || found.size() < fewest.size()) fewest = std::move(found);
    remove_configs(path);
  }
  if (!fewest.empty()) throw ConfigurationError("{}", fewest.front());
  if (!refusal.empty()) throw ConfigurationError("{}", refusal);
  std::vector<std::string> families;
  for (const Architecture& architecture : architectures())
    if (const std::string each = architecture.family + " (" + architecture.name + ")";
        std::ranges::count(families, each) == 0)
      families.push_back(each);
  throw ConfigurationError("model.family: expected {}, found {}",
                           fmt::join(families, ", "),
                           run.values.text("model.family"));
}

std::string generation_of_pairs(const Scalars& scalars, const TokenIds& ids) {
  const auto imported = scalars.get_or<std::string>(generation_config_scalar, "");
  if (!imported.empty() && scalars.has(token_ids_scalar)) return imported;
  nlohmann::ordered_json config;
  write_token_ids(ids, config);
  return config.dump(2) + "\n";
}

// Sets the begin, end and padding tokens of the model. Returns those of its documents.
DocumentTokens add_token_ids(const Scalars& scalars,
                             const Tokenizer& tokenizer,
                             const Configuration& configuration,
                             Exported& exported) {
  const auto padding = padding_id(tokenizer);
  const auto add = [&](const char* key, const nlohmann::ordered_json& id) {
    if (!exported.special_tokens.contains(key) || exported.special_tokens[key].is_null())
      exported.special_tokens[key] = id;
  };
  if (configuration.task_kind().has_pairs) {
    exported.token_ids = token_ids_of(scalars, tokenizer, configuration.data);
    exported.generation = generation_of_pairs(scalars, exported.token_ids);
    DocumentTokens tokens;
    auto begin = exported.token_ids.find("bos_token_id");
    if (begin == exported.token_ids.end())
      begin = exported.token_ids.find("decoder_start_token_id");
    const auto end = exported.token_ids.find("eos_token_id");
    if (begin != exported.token_ids.end()) tokens.begin = begin->second;
    if (end != exported.token_ids.end()) tokens.ends = {end->second};
    return tokens;
  }
  if (padding) add("pad_token_id", *padding);
  if (configuration.task != "language_modeling") return {};
  DocumentTokens tokens = document_tokens_of(scalars, tokenizer, configuration.data);
  if (tokens.begin) add("bos_token_id", *tokens.begin);
  if (configuration.data.documents.end_of_text) exported.special_tokens.erase("eos_token_id");
  if (!tokens.ends.empty()) add("eos_token_id", end_ids(tokens));
  if (!tokens.ends.empty() || scalars.has(generation_config_scalar))
    exported.generation = generation_config_text(scalars, tokens, padding);
  return tokens;
}

// Returns the maximum input length of the exported model; 0 if its config.json lacks it.
std::int64_t positions_of(const ModelValues& values) {
  const auto& all = values.all();
  if (!all.contains("model.max_position_embeddings")) return 0;
  return values.integer_or("model.max_position_embeddings", 0);
}

// ID tokenizers have no files, and a byte-level import without one has never read a text.
bool has_tokenizer(const Exported& run, const Tokenizer& tokenizer, const Checkpoint& checkpoint) {
  const bool is_import = !run.type.empty() && !checkpoint.has(cursor_name);
  return tokenizer.kind() != TokenizerKind::ids &&
         (!is_import || tokenizer.kind() != TokenizerKind::bytes);
}

// Returns the base of the adapters: the imported folder, or else the run that they started from.
std::string base_of(const ExportArguments& arguments,
                    const Checkpoint& checkpoint,
                    const Configuration& configuration,
                    const Session& session) {
  if (!arguments.base.empty()) return arguments.base;
  auto base = checkpoint.scalars().get_or<std::string>(import_folder_scalar, "");
  if (!base.empty()) return base;
  base = configuration.training.start_from.path.text();
  warn(session,
       {base.empty()
            ? "base_model_name_or_path is null: unknown base model; set it with --base-model"
            : fmt::format("base_model_name_or_path is the run {}, which peft cannot read; export "
                          "it and pass its directory with --base-model",
                          base)});
  return base;
}

// Exports only the adapters, for users who have the base model.
void export_adapters_alone(const std::string& base,
                           const Checkpoint& checkpoint,
                           const Architecture& architecture,
                           const ModelValues& values,
                           DType dtype,
                           AtomicDirectory& folder) {
  remove_configs(folder.inside() / model_config_name);
  export_adapters(checkpoint, architecture, values, base, folder.inside(), dtype);
  folder.finish();
}

void export_run(const ExportArguments& arguments, Session& session) {
  const Checkpoint checkpoint = opened(arguments, session);
  const auto configuration = trained_configuration(checkpoint);
  const ModelValues values =
      with_image(plain_values(*configuration, checkpoint), image_of(checkpoint.scalars()));
  const DType dtype = requested_dtype(arguments.dtype, checkpoint);
  AtomicDirectory folder(arguments.folder, "--output-dir");
  const std::string place = checkpoint.path().string();
  const Scalars& scalars = checkpoint.scalars();
  const LabelSet labels = labels_of(scalars, place);
  const Tokenizer tokenizer = tokenizer_of(checkpoint, configuration->data);
  Exported exported = {
      .values = values,
      .is_headless = configuration->task_kind().has_labels && labels.size() == 0,
      .labels = original_label_names(
          labels.names(), scalars.get_or<std::string>(label_names_scalar, ""), place),
      .special_tokens = special_tokens_of(scalars, place),
      .type = scalars.get_or<std::string>(imported_type_scalar, ""),
      .dtype = dtype};
  const DocumentTokens tokens = add_token_ids(scalars, tokenizer, *configuration, exported);
  const Architecture& architecture = write_fitting(exported, folder.inside() / model_config_name);
  const auto tell = [&](const std::string& what) {
    print(session,
          fmt::format("{}: {}, {}, {}, step {} of {}\n",
                      arguments.folder,
                      what,
                      pluralize(values.integer("model.num_hidden_layers"), "layer"),
                      stored_name_of(dtype),
                      checkpoint.info().step,
                      arguments.run));
  };
  if (arguments.adapters) {
    const std::string base = base_of(arguments, checkpoint, *configuration, session);
    export_adapters_alone(base, checkpoint, architecture, values, dtype, folder);
    return tell("adapters for " + architecture.name);
  }
  export_weights(checkpoint,
                 architecture,
                 values,
                 folder.inside(),
                 dtype,
                 static_cast<std::int64_t>(arguments.shard_gigabytes * 1e9));
  if (!image_of(scalars) && has_tokenizer(exported, tokenizer, checkpoint)) {
    TokenizerExport files = {.tokenizer = tokenizer,
                             .scalars = scalars,
                             .tokens = tokens,
                             .model_type = architecture.model_type,
                             .positions = positions_of(values)};
    if (!arguments.chat_template.empty())
      files.chat_template = InputFile(arguments.chat_template).text(std::int64_t{1} << 20);
    if (const std::string why = write_tokenizer_files(files, folder.inside()); !why.empty())
      warn(session, {why});
  }
  folder.finish();
  tell(architecture.name);
}

}  // namespace

Command export_command() {
  return {
      "export",
      "Export a run as a Hugging Face model: config.json and safetensors",
      "  longspan export runs/gpt2 --output-dir ~/models/mine\n"
      "  longspan export runs/gpt2 --output-dir ~/models/mine --checkpoint best --dtype bfloat16\n"
      "  longspan export runs/tuned --output-dir ~/models/adapters --adapter-only\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ExportArguments>();
        app.add_option("RUN", arguments->run, "run directory, or one of its checkpoints")
            ->required()
            ->check(not_empty_text());
        app.add_option("--output-dir", arguments->folder, "directory to create")
            ->required()
            ->type_name("FOLDER")
            ->check(not_empty_text());
        app.add_option("--checkpoint",
                       arguments->checkpoint,
                       "checkpoint to export: a directory, the name or number of a step of the "
                       "run, or best, by checkpoint.best_metric (default: newest valid checkpoint)")
            ->check(not_empty_text());
        app.add_option("--dtype",
                       arguments->dtype,
                       "dtype of the exported weights, rounded to nearest (default: dtype of the "
                       "run's weights)")
            ->check(CLI::IsMember({"float32", "bfloat16", "float16", "float64"}));
        CLI::Option* const adapters =
            app.add_flag("--adapter-only",
                         arguments->adapters,
                         "LoRA adapters (training.lora) alone, in the format of peft (default: "
                         "adapters merged into the weights)");
        app.add_option("--base-model",
                       arguments->base,
                       "base model in adapter_config.json (default: the imported directory, or "
                       "training.init_from.path). Only with --adapter-only.")
            ->needs(adapters)
            ->check(not_empty_text());
        app.add_option("--chat-template",
                       arguments->chat_template,
                       "Jinja chat template for transformers (default: the imported template)")
            ->type_name("FILE")
            ->excludes(adapters)
            ->check(not_empty_text());
        app.add_option("--max-shard-size",
                       arguments->shard_gigabytes,
                       "maximum size of a weight file, in GB (10^9 bytes)")
            ->check(positive_number())
            ->check(CLI::Range(1e-9, 1e6))
            ->capture_default_str();
        return [arguments](Session& session) {
          session.set_time_limit(patience);  // for the ranks that wait for rank 0
          if (session.world().rank() == 0) export_run(*arguments, session);
          return ExitCode::ok;
        };
      }};
}

}  // namespace longspan
