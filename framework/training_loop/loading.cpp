#include "framework/training_loop/loading.h"

#include <algorithm>
#include <array>

#include "checkpoints/step_directory.h"
#include "framework/core/input_file.h"
#include "framework/kernels/elementwise.h"
#include "framework/optim/parameter_state.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/named_checkpoint.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/run_state.h"

namespace longspan {
namespace {

constexpr const char* configuration_name = "config.yaml";
constexpr const char* manifest_name = "manifest.json";
// These depend on one run's data and labels.
constexpr std::array<std::string_view, 2> of_one_run = {"import/token_ids", "import/label_names"};

namespace fs = std::filesystem;

}  // namespace

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

}  // namespace longspan
