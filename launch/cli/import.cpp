#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/interop/label_names.h"
#include "framework/interop/transfer.h"
#include "framework/interop/weights_folder.h"
#include "framework/optim/parameter_state.h"
#include "framework/tasks/labeled_task.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/exported_tokenizer.h"
#include "launch/cli/model_values.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  std::string folder;
  std::string run;
};

// Returns the tokens that the tokenizer adds around a text but training does not; "" if none.
std::string left_out_of(const JsonTokenizer& model) {
  const auto names = [&model](const std::vector<std::int64_t>& ids) {
    std::string text;
    for (const std::int64_t id : ids) text += (text.empty() ? "" : " ") + model.token(id);
    return text;
  };
  const std::string before = names(model.before());
  const std::string after = names(model.after());
  if (before.empty() && after.empty()) return "";
  return fmt::format(
      "adds {}{}{} each text; training, evaluation and generation do not: if the model was trained "
      "with these tokens, write them into the text",
      before.empty() ? "" : before + " before",
      before.empty() || after.empty() ? "" : " and ",
      after.empty() ? "" : after + " after");
}

// Returns the value set, or `otherwise` if the key is not set.
std::string configured_value(const ModelSettings& settings,
                             const std::string& key,
                             const std::string& otherwise) {
  const auto found = std::ranges::find(settings, key, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? otherwise : found->second;
}

// Returns the folder's tokenizer if Longspan reads it and all its IDs have rows. Otherwise returns
// an ID tokenizer, or nothing, which means bytes. Adds remarks on it. `task`: of the run.
std::optional<Tokenizer> tokenizer_of(const fs::path& folder,
                                      std::int64_t vocabulary,
                                      const std::string& task,
                                      std::vector<std::string>& remarks) {
  const std::optional<std::string> file = tokenizer_file_in(folder.string());
  std::string problem;
  if (file) {
    try {
      const JsonTokenizer model = read_json_tokenizer(folder.string());
      if (model.vocabulary() <= vocabulary) {
        // Other tasks add their own tokens around texts.
        const std::string around = task == "language_modeling" ? left_out_of(model) : "";
        if (!around.empty()) remarks.push_back(fmt::format("{}: {}", *file, around));
        return Tokenizer::from_huggingface(model);
      }
      problem = fmt::format("{}: expected at most {} ids (rows of the embedding), found {}",
                            *file,
                            vocabulary,
                            model.vocabulary());
    } catch (const DataError& error) {
      problem = error.what();
    }
  } else {
    problem = fmt::format("{} has no tokenizer.json, vocab.json with merges.txt{}",
                          folder.string(),
                          other_tokenizer_files(folder.string()));
  }
  const bool is_of_files = task == "language_modeling";
  if (!is_of_files && vocabulary >= task_kind(task).vocabulary({}, {})) {
    remarks.push_back(
        fmt::format("{}; texts are read as bytes: byte n is id n of {}, which does not match the "
                    "tokens that the model was trained on",
                    problem,
                    vocabulary));
    return std::nullopt;
  }
  remarks.push_back(fmt::format(
      "{}; the run reads ids from 0 to {} (data.tokenizer.type: none): {}",
      problem,
      vocabulary - 1,
      is_of_files ? "data are files of ids (data.format: tokens), a prompt is ids separated by "
                    "blanks"
                  : "a text is ids separated by blanks"));
  return Tokenizer::ids(vocabulary);
}

void add_tokenizer(const Tokenizer& tokenizer, const fs::path& folder, ModelSettings& settings) {
  settings.emplace_back("data.tokenizer.type", std::string(name_of(tokenizer.kind())));
  if (tokenizer.kind() == TokenizerKind::ids) {
    settings.emplace_back("data.tokenizer.vocab_size", fmt::format("{}", tokenizer.vocabulary()));
    if (configured_value(settings, "run.task", "language_modeling") == "language_modeling")
      settings.emplace_back("data.format", "tokens");
    return;
  }
  const std::string model = fs::absolute(folder).lexically_normal().string();
  settings.emplace_back("data.tokenizer.model", yaml_word(model));
}

std::int64_t vocabulary_of(const ModelSettings& settings) {
  const std::string found = configured_value(settings, "model.vocab_size", "");
  require(!found.empty(), "missing model.vocab_size of the import");
  return std::stoll(found);
}

// Returns the layers of all stacks.
std::int64_t layers_of(const ModelValues& values) {
  const std::int64_t layers = values.integer("model.num_hidden_layers");
  const bool has_encoder = values.all().contains("model.num_encoder_layers");
  return layers + (has_encoder ? values.integer_or("model.num_encoder_layers", layers) : 0);
}

// Stores the tokens that begin and end generation, for an export to write again.
void record_token_ids(const TokenIds& ids, const fs::path& folder, Scalars& scalars) {
  if (ids.empty()) return;
  scalars.set(token_ids_scalar, nlohmann::json(ids).dump());
  const fs::path file = folder / generation_config_name;
  std::error_code unused;
  if (fs::exists(file, unused))
    scalars.set(generation_config_scalar, InputFile(file.string()).text(std::int64_t{1} << 20));
}

// Returns `make()`; reports its failure as an error of config.json at `place`.
template <typename Make>
auto or_of_data(const std::string& place, const Make& make) {
  try {
    return make();
  } catch (const ConfigurationError& error) {
    throw DataError("{}: {}", place, error.what());
  }
}

std::string dtypes_text(const std::map<std::string, std::int64_t>& elements) {
  std::string text;
  for (const auto& [dtype, count] : elements)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, dtype);
  return text;
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& elements) {
  std::int64_t count = 0;
  for (const auto& [dtype, of_dtype] : elements) count += of_dtype;
  return count;
}

// Adds remarks on weights that were not imported, and on a missing head.
void add_remarks(const ImportedWeights& imported,
                 const Architecture& architecture,
                 std::vector<std::string>& remarks) {
  if (!imported.left_out().empty())
    remarks.push_back(fmt::format("not imported and not exported: {} (unsupported)",
                                  join_first(imported.left_out())));
  if (architecture.is_headless)
    remarks.push_back(fmt::format(
        "imported a backbone without a head: to fine-tune it, set training.init_from.reinitialize "
        "to [{}], and for tagging training.init_from.allow_config_changes to [run.task, "
        "model.add_pooling_layer]",
        fmt::join(imported.missing(), ", ")));
}

// Renames all but the first of duplicate names.
void save_labels(const std::string& place, ImportedConfig& meaning, Scalars& scalars) {
  const DistinctNames labels = distinct_names(meaning.labels);
  scalars.set(labels_scalar, LabelSet::in_order(labels.names, place).to_json());
  if (labels.given.empty()) return;
  scalars.set(label_names_scalar, nlohmann::json(labels.given).dump());
  std::vector<std::string> told;
  for (const auto& [name, given] : labels.given)
    told.push_back(fmt::format("{} for the duplicate of {}", quote(name), quote(given)));
  meaning.remarks.push_back(
      fmt::format("{}: duplicate labels, renamed until export: {}", place, join_first(told)));
}

void import(const ImportArguments& arguments, const Session& session) {
  const fs::path folder = arguments.folder;
  std::error_code unused;
  if (!fs::is_directory(folder, unused))
    throw DataError("{}: no such directory; name one with {} and {}",
                    folder.string(),
                    model_config_name,
                    single_file_name);
  const ModelConfig config(folder / model_config_name);
  const Architecture& architecture = architecture_of(config);
  ImportedConfig meaning = architecture.read(config);
  if (architecture.resolve) {
    const WeightsFolder tensors(folder);
    architecture.resolve([&](const std::string& name) { return tensors.find(name); }, meaning);
  }
  std::optional<ImageShape> image;
  std::optional<Tokenizer> tokenizer;
  if (!meaning.image.empty())
    image = ImageShape{meaning.image[0], meaning.image[1], meaning.image[2]};
  else
    tokenizer = tokenizer_of(folder,
                             vocabulary_of(meaning.settings),
                             configured_value(meaning.settings, "run.task", "language_modeling"),
                             meaning.remarks);
  if (tokenizer) {
    add_tokenizer(*tokenizer, folder, meaning.settings);
    if (!meaning.token_ids.empty())
      add_sentence_tokens(meaning.token_ids, *tokenizer, config.place(), meaning.settings);
  }
  const auto configuration = or_of_data(
      config.place(), [&] { return configure_settings(meaning.settings, arguments.run); });
  const ModelValues values = model_values(*configuration);
  const WeightsFolder weights(folder);
  const std::int64_t vocabulary = values.integer_or("model.vocab_size", Tokenizer().vocabulary());
  const auto tensors = std::ssize(weights.names());
  const std::int64_t layers = layers_of(values);
  if (tensors < layers)
    throw DataError("{}: expected at least a tensor for each of {}, found {} in {}",
                    config.place(),
                    pluralize(layers, "layer"),
                    pluralize(tensors, "tensor"),
                    folder.string());
  const auto model = or_of_data(config.place(), [&] {
    // The classes of a backbone without a head are unknown.
    const std::int64_t classes = architecture.is_headless ? 1 : std::ssize(meaning.labels);
    return configuration->make_model({.vocabulary = vocabulary,
                                      .classes = classes,
                                      .segment = configuration->longest(),
                                      .compute = DType::f32,
                                      .device = Device::meta(),
                                      .image = image});
  });
  const ImportedWeights imported(
      weights, architecture, with_image(values, image), weights_state(model->parameters()).tensors);

  AtomicDirectory run(arguments.run, "--output-dir");
  TrainingState state = imported.state();
  state.scalars.set(imported_type_scalar, architecture.model_type);
  state.scalars.set(tokenizer_scalar, tokenizer.value_or(Tokenizer()).to_json());
  state.scalars.set(import_folder_scalar, fs::absolute(folder).lexically_normal().string());
  if (const auto longest = configured_value(meaning.settings, "model.max_position_embeddings", "");
      !longest.empty())
    state.scalars.set(import_positions_scalar, std::stoll(longest));
  record_token_ids(meaning.token_ids, folder, state.scalars);
  if (!image)
    for (std::string& remark : copy_tokenizer_files(folder, state.scalars))
      meaning.remarks.push_back(std::move(remark));
  if (const auto special = config.special_tokens(); !special.empty())
    state.scalars.set(special_tokens_scalar, special.dump());
  if (!meaning.labels.empty()) save_labels(config.place(), meaning, state.scalars);
  if (image) save_image(*image, state.scalars);
  const std::string text = configuration->table.resolved();
  const Communicator alone;
  CheckpointInfo info;
  info.run_id = new_run_id(alone);
  info.configuration = text;
  try {
    save_checkpoint(run.inside() / "checkpoints", info, state, alone);
  } catch (const Error&) {
    // Not an I/O failure, which saving assumes.
    if (imported.problem()) throw DataError("{}", *imported.problem());
    throw;
  }
  write_text_file(run.inside() / "config.yaml", text);
  run.finish();

  std::vector<std::string> remarks = meaning.remarks;
  add_remarks(imported, architecture, remarks);
  if (imported.elements().contains("F64")) remarks.push_back("F64 values were rounded to float32");
  warn(session, remarks);
  print(session,
        fmt::format("{}: {}, {}, {} parameters ({})\n",
                    arguments.run,
                    architecture.name,
                    pluralize(values.integer("model.num_hidden_layers"), "layer"),
                    sum_of(imported.elements()),
                    dtypes_text(imported.elements())));
}

}  // namespace

Command import_command() {
  return {
      "import",
      "Import a Hugging Face model as a run",
      "  longspan import ~/models/gpt2 --output-dir runs/gpt2\n"
      "  longspan evaluate runs/gpt2 --data book.txt\n"
      "  longspan train mine.yaml --set training.init_from.path=runs/gpt2\n"
      "  longspan export runs/gpt2 --output-dir ~/models/again\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ImportArguments>();
        app.add_option(
               "FOLDER",
               arguments->folder,
               fmt::format("directory with config.json (of {}), and with model.safetensors or its "
                           "shards and model.safetensors.index.json",
                           join_or(architecture_names())))
            ->required()
            ->check(not_empty_text());
        app.add_option("--output-dir",
                       arguments->run,
                       "run directory to create, with config.yaml and the weights as the "
                       "checkpoint of step 0")
            ->required()
            ->type_name("RUN")
            ->check(not_empty_text());
        return [arguments](Session& session) {
          session.set_time_limit(patience);  // for the ranks that wait for rank 0
          if (session.world().rank() == 0) import(*arguments, session);
          return ExitCode::ok;
        };
      }};
}

}  // namespace longspan
