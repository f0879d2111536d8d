#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint.h"
#include "framework/core/quote.h"
#include "framework/core/some_of.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/interop/atomic_directory.h"
#include "framework/interop/label_names.h"
#include "framework/interop/transfer.h"
#include "framework/optim/parameter_state.h"
#include "framework/tasks/labelled_task.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/exported_tokenizer.h"
#include "launch/cli/model_values.h"
#include "launch/cli/special_tokens.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  std::string folder;
  std::string run;
};

// What the tokenizer puts around a text, and training does not; "" where that is nothing.
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
      "puts {}{}{} a text, which training, evaluation and generation leave out; where the model "
      "was trained with it, write it into the text",
      before.empty() ? "" : before + " before",
      before.empty() || after.empty() ? "" : " and ",
      after.empty() ? "" : after + " behind");
}

// What is set; `otherwise` where the key is not.
std::string said_of(const ModelSettings& settings,
                    const std::string& key,
                    const std::string& otherwise) {
  const auto found = std::ranges::find(settings, key, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? otherwise : found->second;
}

// Of the folder, where it has one that Longspan reads and whose ids all have rows; otherwise ids
// alone, or none, which is that of bytes. Adds remarks on it. `task`: of the run.
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
        // Other tasks frame their texts.
        const std::string around = task == "language_modeling" ? left_out_of(model) : "";
        if (!around.empty()) remarks.push_back(fmt::format("{}: {}", *file, around));
        return Tokenizer::from_huggingface(model);
      }
      problem = fmt::format(
          "{}: has {} ids, and the model {} rows for them", *file, model.vocabulary(), vocabulary);
    } catch (const DataError& error) {
      problem = error.what();
    }
  } else {
    problem = fmt::format("{} has no tokenizer.json, nor vocab.json with merges.txt{}",
                          folder.string(),
                          other_tokenizer_files(folder.string()));
  }
  const bool is_of_files = task == "language_modeling";
  if (!is_of_files && vocabulary >= task_kind(task).vocabulary({}, {})) {
    remarks.push_back(
        fmt::format("{}; texts are read as bytes, id n of the model's {} being byte n, which means "
                    "nothing to a model that learnt from other tokens",
                    problem,
                    vocabulary));
    return std::nullopt;
  }
  remarks.push_back(fmt::format(
      "{}; the run reads ids from 0 to {} (data.tokenizer.type: none): {}",
      problem,
      vocabulary - 1,
      is_of_files ? "data are files of ids (data.format: tokens), a prompt is numbers with blanks "
                    "between them"
                  : "a text is numbers with blanks between them"));
  return Tokenizer::ids(vocabulary);
}

void add_tokenizer(const Tokenizer& tokenizer, const fs::path& folder, ModelSettings& settings) {
  settings.emplace_back("data.tokenizer.type", std::string(name_of(tokenizer.kind())));
  if (tokenizer.kind() == TokenizerKind::ids) {
    settings.emplace_back("data.tokenizer.vocab_size", fmt::format("{}", tokenizer.vocabulary()));
    if (said_of(settings, "run.task", "language_modeling") == "language_modeling")
      settings.emplace_back("data.format", "tokens");
    return;
  }
  const std::string model = fs::absolute(folder).lexically_normal().string();
  settings.emplace_back("data.tokenizer.model", yaml_word(model));
}

std::int64_t vocabulary_of(const ModelSettings& settings) {
  const std::string found = said_of(settings, "model.vocab_size", "");
  require(!found.empty(), "an import has no model.vocab_size");
  return std::stoll(found);
}

// Of all stacks.
std::int64_t layers_of(const ModelValues& values) {
  const std::int64_t layers = values.integer("model.num_hidden_layers");
  const bool has_encoder = values.all().contains("model.num_encoder_layers");
  return layers + (has_encoder ? values.integer_or("model.num_encoder_layers", layers) : 0);
}

// What an export writes again of what generation begins with and ends at.
void keep_token_ids(const TokenIds& ids, const fs::path& folder, Scalars& scalars) {
  if (ids.empty()) return;
  scalars.set(token_ids_scalar, nlohmann::json(ids).dump());
  const fs::path file = folder / generation_config_name;
  std::error_code unused;
  if (fs::exists(file, unused))
    scalars.set(generation_config_scalar, InputFile(file.string()).text(std::int64_t{1} << 20));
}

// What `make()` gives; where it cannot be, config.json, whose place this is, is to blame.
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
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", count, dtype);
  return text;
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& elements) {
  std::int64_t count = 0;
  for (const auto& [dtype, of_dtype] : elements) count += of_dtype;
  return count;
}

// What the weights and the model do not have of each other.
void add_remarks(const ImportedWeights& imported,
                 const Architecture& architecture,
                 std::vector<std::string>& remarks) {
  if (!imported.left_out().empty())
    remarks.push_back(
        fmt::format("left out, and not in an export: {}, of a head that no model here has",
                    join_first(imported.left_out())));
  if (architecture.is_headless)
    remarks.push_back(fmt::format(
        "the weights are those of a body: a run that starts from them begins {} anew, with "
        "training.init_from.reinitialize (and where it learns tags, "
        "training.init_from.allow_config_changes: "
        "[run.task, model.add_pooling_layer])",
        fmt::join(imported.missing(), ", ")));
}

// Of names that are there twice all but the first are called otherwise here.
void save_labels(const std::string& place, ImportedConfig& meaning, Scalars& scalars) {
  const DistinctNames labels = distinct_names(meaning.labels);
  scalars.set(labels_scalar, LabelSet::in_order(labels.names, place).to_json());
  if (labels.given.empty()) return;
  scalars.set(given_names_scalar, nlohmann::json(labels.given).dump());
  std::vector<std::string> told;
  for (const auto& [name, given] : labels.given)
    told.push_back(fmt::format("{} for the later of two labels {}", quote(name), quote(given)));
  meaning.remarks.push_back(fmt::format(
      "{}: labels are there twice; here stands, until an export gives them their names again, {}",
      place,
      join_first(told)));
}

void import(const ImportArguments& arguments, const Session& session) {
  const fs::path folder = arguments.folder;
  std::error_code unused;
  if (!fs::is_directory(folder, unused))
    throw DataError("{}: there is no such folder; wanted one with {} and {}",
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
                             said_of(meaning.settings, "run.task", "language_modeling"),
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
    throw DataError("{}: says {} layers, and {} has {} tensors",
                    config.place(),
                    layers,
                    folder.string(),
                    tensors);
  const auto model = or_of_data(config.place(), [&] {
    // What a body's classes would be nobody knows.
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

  AtomicDirectory run(arguments.run, "--to");
  TrainingState state = imported.state();
  state.scalars.set(imported_type_scalar, architecture.model_type);
  state.scalars.set(tokenizer_scalar, tokenizer.value_or(Tokenizer()).to_json());
  state.scalars.set(import_folder_scalar, fs::absolute(folder).lexically_normal().string());
  if (const auto longest = said_of(meaning.settings, "model.max_position_embeddings", "");
      !longest.empty())
    state.scalars.set(import_positions_scalar, std::stoll(longest));
  keep_token_ids(meaning.token_ids, folder, state.scalars);
  if (!image)
    for (std::string& remark : keep_tokenizer_files(folder, state.scalars))
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
    // Not the disk's fault, which a save takes for its own.
    if (imported.problem()) throw DataError("{}", *imported.problem());
    throw;
  }
  write_text_file(run.inside() / "config.yaml", text);
  run.finish();

  std::vector<std::string> remarks = meaning.remarks;
  add_remarks(imported, architecture, remarks);
  if (imported.elements().contains("F64"))
    remarks.push_back("numbers of F64 were rounded to the nearest of float32");
  warn(session, remarks);
  print(session,
        fmt::format("{}: {} of {} layers, {} weights ({})\n",
                    arguments.run,
                    architecture.name,
                    values.text("model.num_hidden_layers"),
                    sum_of(imported.elements()),
                    dtypes_text(imported.elements())));
}

}  // namespace

Command import_command() {
  return {
      "import",
      "Make a run of a model that others trained: config.json and safetensors",
      "  longspan import ~/models/gpt2 --to runs/gpt2\n"
      "  longspan evaluate runs/gpt2 --data book.txt\n"
      "  longspan train mine.yaml --set training.init_from.path=runs/gpt2\n"
      "  longspan export runs/gpt2 --to ~/models/again\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ImportArguments>();
        app.add_option(
               "FOLDER",
               arguments->folder,
               fmt::format("a folder with config.json (of {}) and model.safetensors, or several "
                           "files of it with model.safetensors.index.json",
                           join_or(architecture_names())))
            ->required()
            ->check(not_empty_text());
        app.add_option("--to",
                       arguments->run,
                       "the run's directory to make: config.yaml and the weights as step 0")
            ->required()
            ->type_name("RUN")
            ->check(not_empty_text());
        return [arguments](Session& session) {
          session.set_time_limit(patience);  // of the ranks that wait for rank 0
          if (session.world().rank() == 0) import(*arguments, session);
          return ExitCode::ok;
        };
      }};
}

}  // namespace longspan
