#include "launch/cli/saved_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/rank_zero.h"
#include "framework/training_loop/init_from.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/configuration_keys.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct SavedTokenizer {
  Tokenizer tokenizer;
  std::string configuration;  // that it was saved with
};

// Opens the step, or the newest readable step of a folder: all steps of a run have one tokenizer.
std::optional<Checkpoint> open_any(const fs::path& path) {
  std::vector<fs::path> steps = {path};
  try {
    std::vector<std::int64_t> numbers = steps_in(path);
    for (auto step = numbers.rbegin(); step != numbers.rend(); ++step)
      steps.push_back(path / step_name(*step));
  } catch (const DataError&) {
  }
  for (const fs::path& step : steps) {
    try {
      return Checkpoint::open(step);
    } catch (const DataError&) {
    }
  }
  return std::nullopt;
}

// Rank 0 reads the checkpoint and broadcasts the text.
std::optional<SavedTokenizer> saved_tokenizer(const std::vector<fs::path>& places,
                                              const Communicator& world) {
  const std::string text =
      run_on_rank_zero(world, "", 0, {}, [places](const ProgressCallback&) -> std::string {
        for (const fs::path& place : places) {
          const std::optional<Checkpoint> found = open_any(place);
          if (!found) continue;
          const Scalars& scalars = found->scalars();
          if (!scalars.has(tokenizer_scalar)) return "";
          return nlohmann::json{scalars.get_or<std::string>(tokenizer_scalar, ""),
                                found->info().configuration}
              .dump();
        }
        return "";
      });
  if (text.empty()) return std::nullopt;
  const auto parts = nlohmann::json::parse(text).get<std::vector<std::string>>();
  try {
    return SavedTokenizer{Tokenizer::from_json(parts[0], "the checkpoint"), parts[1]};
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Whether the tokenizer may differ in type from data.tokenizer.type, which the user has not set.
bool may_take_kind(const Configuration& configuration) {
  return !configuration.table.is_given("data.tokenizer.type") &&
         !configuration.training.start_from.path.empty() && reads_text(configuration);
}

// Whether the keys that a trained tokenizer depends on agree with the checkpoint.
bool asks_for(const Configuration& configuration, const std::string& saved) {
  try {
    const auto then = compare(configuration, saved).saved;
    const auto now = compare(configuration, configuration.table.resolved()).saved;
    const auto is_same = [&](const char* key) {
      return !then.contains(key) || then.at(key) == now.at(key);
    };
    const bool is_trained =
        configuration.data.tokenizer_model.empty() && is_same("data.tokenizer.model");
    const bool is_kind = may_take_kind(configuration) ||
                         (is_same("data.tokenizer.type") && is_same("data.tokenizer.allow_unk"));
    return is_kind && (!is_trained || (is_same("data.tokenizer.model_type") &&
                                       is_same("data.tokenizer.vocab_size")));
  } catch (const DataError&) {
    return false;
  }
}

std::vector<fs::path> checkpoint_folders(const Configuration& configuration) {
  const std::string& choice = configuration.checkpoint.resume.text();
  const fs::path run = configuration.run.directory.text();
  if (choice == "never") return {};
  if (choice == "auto") return {run / checkpoints_name};
  return {choice, fs::path(choice) / checkpoints_name, run / checkpoints_name};
}

bool has_embedding_input(const InitFromOptions& options) {
  constexpr std::array<std::string_view, 4> tables = {
      "embedding", "embedding/weight", "source_embedding", "source_embedding/weight"};
  return std::ranges::none_of(options.reinitialize, [&](const std::string& beginning) {
    return std::ranges::count(tables, beginning) > 0;
  });
}

// Sets the tokenizer if its type is data.tokenizer.type, or that key is not set and
// training.init_from.path is. Returns whether it did.
bool use(const Tokenizer& tokenizer, Configuration& configuration) {
  DataOptions& data = configuration.data;
  if (tokenizer.kind() != data.tokenizer) {
    if (!may_take_kind(configuration) || tokenizer.kind() == TokenizerKind::ids) return false;
    DataOptions other = data;
    other.tokenizer = tokenizer.kind();
    other.unknown = tokenizer.has_unknown();
    other.saved_tokenizer = tokenizer;
    if (!configuration.task_kind().problem(other).empty()) return false;
    data = std::move(other);
  }
  data.saved_tokenizer = tokenizer;
  return true;
}

}  // namespace

void use_saved_tokenizer(Configuration& configuration, const Communicator& world) {
  DataOptions& data = configuration.data;
  const InitFromOptions& start = configuration.training.start_from;
  const bool is_made_of_data =
      data.tokenizer != TokenizerKind::bytes && data.tokenizer != TokenizerKind::ids;
  if (data.format != DataFormat::text || (!is_made_of_data && start.path.empty()) ||
      path_exists(data.tokenizer_model, world))
    return;
  if (const auto own = saved_tokenizer(checkpoint_folders(configuration), world)) {
    if (asks_for(configuration, own->configuration)) use(own->tokenizer, configuration);
  } else if (!start.path.empty() && !start.resize_vocab && has_embedding_input(start)) {
    require_start(start.path, world);
    const fs::path path = start.path.text();
    const auto other = saved_tokenizer({path, path / checkpoints_name}, world);
    data.starts_with_saved = other && use(other->tokenizer, configuration);
  }
  throw_if_error(configuration.task_kind().problem(data));
  throw_if_error(validate_tokenizer_type(data));
}

}  // namespace longspan
