// Saves and restores rollouts in checkpoints, between two rollouts and within one.
#include <bit>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/rl/rollouts.h"
#include "framework/trainer/recurrent_state_io.h"

namespace longspan {
namespace {

constexpr const char* carried_prefix = "acting/";
constexpr const char* partial_prefix = "rollout/recurrent_state/";
constexpr const char* field_prefix = "rollout/fields/";
// Checkpoint scalars.
constexpr const char* environment_name = "rollout/environment";
constexpr const char* epochs_name = "rollout/num_epochs";
constexpr const char* minibatches_name = "rollout/num_minibatches";

// Columns before those of the environment state.
constexpr std::int64_t columns_of_life = 9;

std::int64_t bits(double number) { return std::bit_cast<std::int64_t>(number); }
double number(std::int64_t bits_of_it) { return std::bit_cast<double>(bits_of_it); }

}  // namespace

std::int64_t RolloutSource::columns() const {
  return columns_of_life + static_cast<std::int64_t>(lives_.environment().numbers);
}

bool RolloutSource::is_owner() const {
  const ProcessMesh& mesh = model_->parameters().mesh();
  return mesh.tensor.rank() == 0 && mesh.context.rank() == 0;
}

CursorRows RolloutSource::cursor_rows() const {
  return {setting_.lives.rows.begin, setting_.environments};
}

Tensor RolloutSource::cursors() const {
  std::vector<std::int64_t> all;
  for (std::size_t row = 0; row < ended_.size(); ++row) {
    const EnvState& life = lives_.rows()[row];
    all.insert(all.end(),
               {life.episode,
                life.steps,
                life.actions,
                life.previous_action,
                bits(life.reward),
                bits(life.total),
                made_,
                bits(ended_[row].reward),
                ended_[row].succeeded ? 1 : 0});
    all.insert(all.end(), life.now.begin(), life.now.end());
  }
  return Tensor::from<std::int64_t>(
      all, {std::ssize(ended_), columns()}, setting_.lives.host, MemoryTag::workspace);
}

void RolloutSource::restore(const Tensor& cursors) {
  const Shape wanted = {std::ssize(ended_), columns()};
  if (cursors.dtype() != DType::i64 || cursors.shape() != wanted)
    throw DataError(
        "expected data positions of shape {} for {} environments of a {}, found {}; "
        "restore the environment of the checkpoint",
        wanted.to_string(),
        ended_.size(),
        lives_.environment().description,
        cursors.shape().to_string());
  std::vector<EnvState> lives;
  for (std::size_t row = 0; row < ended_.size(); ++row) {
    const auto of_row = cursors.span<std::int64_t>().subspan(
        row * static_cast<std::size_t>(columns()), static_cast<std::size_t>(columns()));
    lives.push_back({.episode = of_row[0],
                     .steps = of_row[1],
                     .actions = of_row[2],
                     .previous_action = of_row[3],
                     .reward = number(of_row[4]),
                     .total = number(of_row[5]),
                     .now = {of_row.begin() + columns_of_life, of_row.end()}});
    made_ = of_row[6];
    ended_[row] = {number(of_row[7]), of_row[8] != 0};
  }
  if (made_ < 0) throw DataError("invalid number of rollout batches: {}", made_);
  lives_.restore(std::move(lives));
}

void RolloutSource::save_state(TrainingState& state) const {
  const Parameters& parameters = model_->parameters();
  const std::int64_t first = setting_.lives.rows.begin, total = setting_.environments;
  state.scalars.set(environment_name, setting_.lives.environment.description);
  state.scalars.set(epochs_name, setting_.options.epochs);
  state.scalars.set(minibatches_name, setting_.options.minibatches);
  save_recurrent_state(state, reader_.carried(), first, total, parameters, carried_prefix);
  if (made_ == 0) return;
  save_recurrent_state(state, begun_, first, total, parameters, partial_prefix);
  for (const auto& [name, field] : fields_)
    state.add_part(field_prefix + name, field, 0, first, total, is_owner());
}

// Older checkpoints that lack these values are accepted.
void RolloutSource::check_compatible(const Checkpoint& checkpoint) const {
  const Scalars& saved = checkpoint.scalars();
  const std::string place = checkpoint.path().string();
  const std::string& here = setting_.lives.environment.description;
  if (const auto there = saved.get_or<std::string>(environment_name, here); there != here)
    throw DataError(
        "{}: data.train: expected a {} as in the checkpoint, found a {}", place, there, here);
  if (made_ == 0) return;
  const RolloutOptions& options = setting_.options;
  const auto epochs = saved.get_or<std::int64_t>(epochs_name, options.epochs);
  const auto minibatches = saved.get_or<std::int64_t>(minibatches_name, options.minibatches);
  if (epochs != options.epochs || minibatches != options.minibatches)
    throw DataError("{}: saved with {} of {}; set ppo.num_epochs and ppo.num_minibatches to these",
                    place,
                    pluralize(epochs, "rollout epoch"),
                    pluralize(minibatches, "minibatch", "minibatches"));
  if (made_ >= batches())
    throw DataError(
        "{}: expected fewer than {} rollout batches, found {}; set ppo.num_epochs and "
        "ppo.num_minibatches as in the checkpoint",
        place,
        batches(),
        made_);
}

void RolloutSource::load_state(const Checkpoint& checkpoint) {
  check_compatible(checkpoint);
  const Parameters& parameters = model_->parameters();
  const std::int64_t rows = setting_.lives.rows.count();
  const std::vector<std::string> names = model_->body().recurrent_state_names();
  const auto room = [&](const char* prefix, std::optional<std::int64_t> longest) {
    return allocate_recurrent_state(
        checkpoint, names, rows, parameters.mesh(), parameters.device(), prefix, longest);
  };
  // With a shorter memory than before, the model acts with its last positions, which learners
  // attend to fully. The state from the start of a rollout is not truncated, because it determined
  // the actions.
  RecurrentState carried = room(carried_prefix, model_->body().max_mem_len());
  const std::int64_t forgotten = saved_length(checkpoint, names, carried_prefix) - carried.length();
  begun_ = made_ == 0 ? RecurrentState() : room(partial_prefix, {});
  fields_.clear();
  if (made_ != 0) {
    const std::string prefix = field_prefix;
    for (const CheckpointTensor& saved : checkpoint.tensors()) {
      if (!saved.name.starts_with(prefix)) continue;
      fields_[saved.name.substr(prefix.size())] = Tensor::empty(
          saved.shape.with(0, rows), saved.dtype, setting_.lives.host, MemoryTag::workspace);
    }
    if (const Tensor& tokens = field_of(fields_, "tokens"); tokens.shape()[1] != setting_.segment)
      throw DataError("{}: saved with rollouts of {} steps; set data.seq_length to this",
                      checkpoint.path().string(),
                      tokens.shape()[1]);
  }
  TrainingState state;
  const std::int64_t first = setting_.lives.rows.begin, total = setting_.environments;
  save_recurrent_state(state, carried, first, total, parameters, carried_prefix, forgotten);
  save_recurrent_state(state, begun_, first, total, parameters, partial_prefix);
  for (const auto& [name, field] : fields_)
    state.add_part(field_prefix + name, field, 0, first, total, is_owner());
  checkpoint.read(std::span<const StateTensor>(state.tensors));
  cast_recurrent_state(carried, parameters);
  cast_recurrent_state(begun_, parameters);
  reader_.begin(carried);
}

}  // namespace longspan
