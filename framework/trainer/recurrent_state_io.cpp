#include "framework/trainer/recurrent_state_io.h"

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {
namespace {

std::string checkpoint_name(const RecurrentStateSpec& spec) {
  return "recurrent_state/" + spec.name;
}

// Returns null for a Transformer-XL memory.
const RecurrentStateSpec* find_spec(const Parameters& parameters, const std::string& name) {
  const auto& specs = parameters.recurrent_states();
  const auto found = std::ranges::find(specs, name, &RecurrentStateSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

}  // namespace

void save_recurrent_state(TrainingState& state,
                          const RecurrentState& carried,
                          std::int64_t first,
                          std::int64_t rows,
                          const Parameters& parameters,
                          const std::string& prefix,
                          std::int64_t before) {
  const ProcessMesh& mesh = parameters.mesh();
  const bool owner = mesh.shape.sequence || mesh.tensor.rank() == 0;
  const std::int64_t length = carried.length();
  // A Transformer-XL memory is contiguous in time.
  const Ranges held = shard_memory(mesh, length).outside();
  for (const RecurrentStateTensor& piece : carried.tensors) {
    std::vector<std::int64_t> offset(static_cast<std::size_t>(piece.tensor.shape().dimensions()));
    offset[0] = first;
    if (const RecurrentStateSpec* const spec = find_spec(parameters, piece.name)) {
      offset[static_cast<std::size_t>(spec->axis)] = spec->part.begin;
      state.add_box(prefix + checkpoint_name(*spec),
                    piece.tensor,
                    spec->shape.with(0, rows),
                    offset,
                    spec->is_primary_owner);
    } else if (total_count(held) > 0) {
      const Shape whole = piece.tensor.shape().with(0, rows).with(1, before + length);
      offset[1] = before + held.front().begin;
      state.add_box(prefix + piece.name, piece.tensor, whole, offset, owner);
    }
  }
}

RecurrentState allocate_recurrent_state(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& names,
                                        std::int64_t count,
                                        const ProcessMesh& mesh,
                                        const Device& device,
                                        const std::string& prefix,
                                        std::optional<std::int64_t> longest) {
  const std::int64_t saved = saved_length(checkpoint, names, prefix);
  const std::int64_t length = std::min(saved, longest.value_or(saved));
  if (length == 0) return {};
  const std::int64_t held = total_count(shard_memory(mesh, length).outside());
  RecurrentState carried = {.tensors = {}, .all = length};
  for (const std::string& name : names)
    carried.tensors.push_back(
        {name,
         Tensor::empty(checkpoint.shape_of(prefix + name).with(0, count).with(1, held),
                       checkpoint.dtype_of(prefix + name),
                       device,
                       MemoryTag::recurrent_state)});
  return carried;
}

RecurrentState allocate_recurrent_state(const Checkpoint& checkpoint,
                                        const std::vector<RecurrentStateSpec>& specs,
                                        std::int64_t count,
                                        const Device& device) {
  RecurrentState carried = {.tensors = {}, .all = 0};
  const auto is_saved = [&](const RecurrentStateSpec& spec) {
    return checkpoint.has(checkpoint_name(spec));
  };
  if (std::ranges::none_of(specs, is_saved)) return {};
  for (const RecurrentStateSpec& spec : specs) {
    const std::string name = checkpoint_name(spec);
    if (!is_saved(spec))
      throw DataError("{}: tensor \"{}\" is missing", checkpoint.path().string(), name);
    const Shape& saved = checkpoint.shape_of(name);
    if (saved.with(0, 1) != spec.shape)
      throw DataError("{}: tensor \"{}\": expected {}, found {}",
                      checkpoint.path().string(),
                      name,
                      spec.shape.with(0, saved[0]).to_string(),
                      saved.to_string());
    carried.tensors.push_back({spec.name,
                               Tensor::empty(spec.local_shape(count),
                                             checkpoint.dtype_of(name),
                                             device,
                                             MemoryTag::recurrent_state)});
  }
  return carried;
}

std::int64_t saved_length(const Checkpoint& checkpoint,
                          const std::vector<std::string>& names,
                          const std::string& prefix) {
  if (names.empty() || !checkpoint.has(prefix + names.front())) return 0;
  return checkpoint.shape_of(prefix + names.front())[1];
}

void cast_recurrent_state(RecurrentState& carried, const Parameters& parameters) {
  for (RecurrentStateTensor& piece : carried.tensors) {
    const RecurrentStateSpec* const spec = find_spec(parameters, piece.name);
    const DType dtype = spec != nullptr ? spec->dtype : parameters.compute_dtype();
    piece.tensor = cast(Variable(piece.tensor), dtype).value();
  }
}

}  // namespace longspan
