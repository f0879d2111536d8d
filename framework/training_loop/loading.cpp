#include "framework/training_loop/loading.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <system_error>

#include "checkpoints/step_directory.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/utf8.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/kernels/elementwise.h"
#include "framework/optim/parameter_state.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/training_loop/best_step.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/run_directory.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code unused;
  return fs::is_directory(path, unused);
}

bool is_any(const fs::path& path) {
  std::error_code unused;
  return fs::exists(path, unused);
}

// Parses "step-000000080" or "80".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (const auto entry = step_entry(name); entry && entry->use == StepUse::saved)
    return entry->step;
  constexpr std::size_t max_digits = 9;
  if (name.empty() || name.size() > max_digits ||
      !std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; }))
    return std::nullopt;
  std::int64_t step = 0;
  std::from_chars(name.data(), name.data() + name.size(), step);
  return step;
}

// Returns the folder whose newest step is selected, or nothing.
std::optional<fs::path> folder_of_steps(const fs::path& path) {
  if (is_any(path / "manifest.json")) return std::nullopt;
  for (const fs::path& folder : {path / checkpoints_name, path})
    if (!steps_in(folder).empty()) return folder;
  // A run without checkpoints.
  if (is_folder(path / checkpoints_name)) return path / checkpoints_name;
  return std::nullopt;
}

fs::path step_of_run(const ConfigPath& name, std::int64_t step, const fs::path& run) {
  const fs::path folder = run / checkpoints_name;
  if (is_folder(folder / step_name(step))) return folder / step_name(step);
  const std::vector<std::int64_t> steps = steps_in(folder);
  throw DataError("{}{}: no checkpoint {}; {}",
                  name.before(),
                  folder.string(),
                  step_name(step),
                  steps.empty()
                      ? "no step is saved there"
                      : fmt::format("{} saved there, the newest is {}",
                                    steps.size() == 1 ? "one step is"
                                                      : fmt::format("{} steps are", steps.size()),
                                    step_name(steps.back())));
}

constexpr const char* best_name = "best";

// Returns the resolved name after a letter: 's' a step, 'f' a folder whose newest step is selected,
// 'b' a folder whose best step is, 'e' an error.
std::string meaning_of(const ConfigPath& name, const fs::path& run) {
  const std::string& text = name.text();
  try {
    if (is_folder(text)) {
      if (const auto folder = folder_of_steps(text)) return 'f' + folder->string();
    } else if (const auto step = step_of(text)) {
      return 's' + step_of_run(name, *step, run).string();
    } else if (text == best_name) {
      return 'b' + (run / checkpoints_name).string();
    } else if (!is_any(text)) {
      throw DataError("{}: no such checkpoint{}", name.describe(), name.not_found_hint());
    }
    return 's' + text;
  } catch (const std::exception& error) {
    return std::string("e") + error.what();
  }
}

// Returns the best step according to the newest one. Collective.
fs::path best_of_newest(const ConfigPath& name, const Checkpoint& newest, const fs::path& run) {
  const auto best = best_step(newest.scalars());
  if (!best)
    throw DataError("{}{}: no best checkpoint; set checkpoint.best_metric to retain one",
                    name.before(),
                    newest.path().string());
  return step_of_run(name, best->step, run);
}

constexpr const char* configuration_name = "config.yaml";
constexpr const char* manifest_name = "manifest.json";
// These depend on one run's data and labels.
constexpr std::array<std::string_view, 2> of_one_run = {"import/token_ids", "import/label_names"};

// Returns the row of `from` for the character that `id` has in `to`.
std::int64_t row_of_character(const Tokenizer& from, const Tokenizer& to, std::int64_t id) {
  const bool is_unknown = to.has_unknown() && id == 0;
  if (is_unknown) return from.has_unknown() ? 0 : -1;
  const std::array<std::int64_t, 1> one = {id};
  const std::int64_t row = from.id_of(decode_utf8(to.decode(one)).code_point);
  const bool is_lacking = row < 0 || (from.has_unknown() && row == 0);
  return is_lacking ? -1 : row;
}

// Tokens match by name. An ID without text matches only the same ID.
std::int64_t row_of_token(const Tokenizer& from, const Tokenizer& to, std::int64_t id) {
  if (to.kind() == TokenizerKind::ids) return id < from.vocabulary() ? id : -1;
  if (const SentencePieceModel* const model = to.subword_model())
    return from.subword_model()->id_of(model->piece(id));
  const JsonTokenizer* const model = to.json_tokenizer();
  if (model == nullptr) return row_of_character(from, to, id);
  const std::string& token = model->token(id);
  return token.empty() ? -1 : from.json_tokenizer()->id_of(token);
}

template <typename From, typename To>
void copy_rows(const Tensor& table,
               const StateTensor& piece,
               const Tensor& values,
               const std::vector<std::int64_t>& rows) {
  const std::int64_t width = table.elements() / table.shape()[0];
  const std::int64_t count = values.elements() / values.shape()[0];
  const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
  for (std::int64_t i = 0; i < values.shape()[0]; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(piece.offset[0] + i)];
    if (row < 0) continue;
    const From* const from = table.data<From>() + row * width + column;
    std::transform(from, from + count, values.data<To>() + i * count, [](From value) {
      return static_cast<To>(value);
    });
  }
}

}  // namespace

NamedCheckpoint find_checkpoint(const ConfigPath& name,
                                const fs::path& run,
                                const Communicator& world,
                                const CheckpointValidator& judge,
                                const ReadProgress& watch) {
  // Another node may see different directory contents.
  const std::string meaning =
      world.broadcast(world.rank() == 0 ? meaning_of(name, run) : std::string(), 0);
  const std::string text = meaning.substr(1);
  if (meaning[0] == 'e') throw DataError("{}", text);
  if (meaning[0] == 's') return {text, {}};
  CheckpointSearch search = latest_valid_checkpoint(text, world, judge, watch);
  if (search.found && meaning[0] == 'b')
    return {best_of_newest(name, open_run_checkpoint(search.found->path, watch), run), {}};
  if (search.found) return {search.found->path, std::move(search.skipped)};
  if (search.skipped.empty()) throw DataError("{}{}: no checkpoint yet", name.before(), text);
  throw DataError(
      "{}{}: no valid checkpoint; the newest: {}", name.before(), text, search.skipped.front());
}

void load_masters(const Checkpoint& checkpoint, const std::vector<StateTensor>& masters) {
  std::vector<StateTensor> wanted = masters;
  for (StateTensor& piece : wanted) {
    const DType saved = checkpoint.dtype_of(piece.name);
    if (saved != piece.tensor.dtype() && (saved == DType::f32 || saved == DType::f64))
      piece.tensor =
          Tensor::empty(piece.tensor.shape(), saved, piece.tensor.device(), MemoryTag::workspace);
  }
  checkpoint.read(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& read = wanted[i].tensor;
    const Tensor& master = masters[i].tensor;
    if (read.bytes() == master.bytes()) continue;
    on(master.device(), [&](auto backend) { scale(backend, 1, read, master); });
  }
}

void load_weights(const Checkpoint& checkpoint, const Parameters& parameters) {
  load_masters(checkpoint, weights_state(parameters).tensors);
  parameters.refresh_compute();
}

RunLocation locate_run(const fs::path& path) {
  std::error_code unused;
  if (fs::is_regular_file(path, unused)) return {.configuration = path};
  if (path_exists(path / configuration_name))
    return {.configuration = path / configuration_name, .run = path};
  const fs::path whole = fs::absolute(path / "").parent_path().lexically_normal();
  // A step without a manifest still counts as a step.
  const auto entry = step_entry(whole.filename().string());
  const bool is_step = entry && entry->use == StepUse::saved && fs::is_directory(path, unused);
  if (is_step || path_exists(path / manifest_name)) {
    // RUN/checkpoints/step-000000500
    const fs::path run = whole.parent_path().parent_path();
    if (!path_exists(run / configuration_name))
      throw DataError("{}: no {} in {}; name a config and set --checkpoint",
                      path.string(),
                      configuration_name,
                      run.string());
    return {.configuration = run / configuration_name, .run = run, .checkpoint = path};
  }
  if (const fs::path run = whole.parent_path();
      whole.filename() == checkpoints_name && path_exists(run / configuration_name))
    return {.configuration = run / configuration_name, .run = run};
  if (!path_exists(path)) {
    const std::string help = ConfigPath(path.string()).not_found_hint();
    if (path.extension() == ".yaml" || path.extension() == ".yml")
      throw ConfigurationError("{}: no such file{}", path.string(), help);
    throw DataError("{}: no such run or checkpoint{}", path.string(), help);
  }
  if (is_running(path))
    throw DataError("{}: the run is starting and has no checkpoint yet", path.string());
  throw DataError("{}: expected a config, a run directory (with a {}) or a checkpoint (with a {})",
                  path.string(),
                  configuration_name,
                  manifest_name);
}

std::optional<OpenedCheckpoint> open_checkpoint(const std::optional<std::string>& named,
                                                const fs::path& run_directory,
                                                const Communicator& world,
                                                const ReadProgress& watch) {
  if (named) {
    NamedCheckpoint found = find_checkpoint(*named, run_directory, world, value_problems, watch);
    return OpenedCheckpoint{open_run_checkpoint(found.path, watch), std::move(found.skipped)};
  }
  const fs::path directory = run_directory / checkpoints_name;
  CheckpointSearch search = latest_valid_checkpoint(directory, world, value_problems, watch);
  if (!search.found) {
    if (search.skipped.empty()) return std::nullopt;
    throw DataError(
        "{}: no valid checkpoint; the newest: {}", directory.string(), search.skipped.front());
  }
  return OpenedCheckpoint{Checkpoint::open(search.found->path, watch), std::move(search.skipped)};
}

Tokenizer tokenizer_of(const Checkpoint& checkpoint, const DataOptions& options) {
  if (!checkpoint.scalars().has(tokenizer_scalar)) return make_tokenizer(options);
  return Tokenizer::from_json(checkpoint.scalars().get<std::string>(tokenizer_scalar),
                              checkpoint.path().string());
}

Scalars import_scalars(const Scalars& scalars, bool all) {
  Scalars found;
  for (const auto& [name, value] : scalars.values())
    if (name.starts_with(import_prefix) && (all || std::ranges::count(of_one_run, name) == 0))
      found.values().emplace(name, value);
  return found;
}

std::vector<std::int64_t> matching_rows(const VocabularyTable& from, const VocabularyTable& to) {
  require(from.tokenizer.kind() == to.tokenizer.kind(),
          "cannot match vocabulary rows of different tokenizer types");
  std::vector<std::int64_t> rows(static_cast<std::size_t>(to.rows), -1);
  if (from.tokenizer == to.tokenizer) {
    const auto both = static_cast<std::ptrdiff_t>(std::min(from.rows, to.rows));
    std::iota(rows.begin(), rows.begin() + both, 0);
    return rows;
  }
  for (std::int64_t id = 0; id < to.tokenizer.vocabulary(); ++id)
    rows[static_cast<std::size_t>(id)] = row_of_token(from.tokenizer, to.tokenizer, id);
  return rows;
}

std::vector<std::int64_t> same_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece) {
  const Tensor values = piece.tensor.to_host();
  const bool from_wide = table.dtype() == DType::f64;
  const bool to_wide = values.dtype() == DType::f64;
  const auto copy = from_wide ? (to_wide ? copy_rows<double, double> : copy_rows<double, float>)
                              : (to_wide ? copy_rows<float, double> : copy_rows<float, float>);
  copy(table, piece, values, rows);
  if (values.bytes() != piece.tensor.bytes()) piece.tensor.copy_from(values);
}

}  // namespace longspan
