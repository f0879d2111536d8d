#include "framework/interop/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "framework/core/quote.h"
#include "framework/interop/adapters.h"

namespace longspan {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<std::int64_t> extents_of(const Shape& shape) {
  const auto extents = shape.extents();
  return {extents.begin(), extents.end()};
}

std::vector<Shape> longspan_shapes(const Checkpoint& checkpoint, const TensorPair& pair) {
  std::vector<Shape> shapes;
  for (const std::string& name : pair.longspan_names) shapes.push_back(checkpoint.shape_of(name));
  return shapes;
}

}  // namespace

ImportedWeights::ImportedWeights(const WeightsFolder& folder,
                                 const Architecture& architecture,
                                 const ModelValues& values,
                                 const std::vector<StateTensor>& weights)
    : folder_(folder), architecture_(architecture), has_prefix_(false) {
  for (const std::string& name : folder.names())
    has_prefix_ = has_prefix_ || name.starts_with(architecture.prefix);
  find_stand_ins(values);
  std::map<std::string, Shape> shapes;
  for (const StateTensor& weight : weights) shapes.emplace(weight.name, weight.global_shape);
  for (TensorPair& pair : architecture.tensors(values)) {
    Source source = {std::move(pair), {}};
    for (const std::string& name : source.pair.longspan_names) {
      require(shapes.contains(name), "the model has no parameter \"{}\"", name);
      source.longspan_names.push_back(shapes.at(name));
    }
    sources_.push_back(std::move(source));
  }
  check_all(weights);
  std::erase_if(sources_, [this](const Source& source) {
    if (!source.pair.optional || folder_.find(hf_name_of(source.pair.hf_name)) != nullptr)
      return false;
    missing_.insert(
        missing_.end(), source.pair.longspan_names.begin(), source.pair.longspan_names.end());
    return true;
  });
  for (const Source& source : sources_) check_compatible(source);
  check_unexpected_tensors(values);
}

std::string ImportedWeights::hf_name_of(const std::string& name) const {
  if (const auto found = stand_ins_.find(name); found != stand_ins_.end()) return found->second;
  const bool is_bare = !has_prefix_ && name.starts_with(architecture_.prefix);
  const std::string now = is_bare ? name.substr(architecture_.prefix.size()) : name;
  if (!architecture_.legacy_name || folder_.find(now) != nullptr) return now;
  const std::string before = architecture_.legacy_name(now);
  return folder_.find(before) != nullptr ? before : now;
}

bool ImportedWeights::is_left_out(const std::string& name) const {
  return architecture_.is_unsupported_tensor && architecture_.is_unsupported_tensor(name);
}

void ImportedWeights::find_stand_ins(const ModelValues& values) {
  if (!architecture_.copies) return;
  for (const auto& [name, of] : architecture_.copies(values)) {
    const std::string copy = hf_name_of(name);
    if (folder_.find(hf_name_of(of)) == nullptr && folder_.find(copy) != nullptr)
      stand_ins_.emplace(of, copy);
  }
}

// Checks that each weight has one source, except the output head of a bare backbone.
void ImportedWeights::check_all(const std::vector<StateTensor>& weights) {
  std::set<std::string> known;
  for (const Source& source : sources_)
    for (const std::string& name : source.pair.longspan_names)
      require(known.insert(name).second, "parameter \"{}\" has two sources", name);
  for (const StateTensor& weight : weights) {
    if (known.contains(weight.name)) continue;
    require(architecture_.is_headless && weight.name.starts_with("output/"),
            "parameter \"{}\" has no source",
            weight.name);
    missing_.push_back(weight.name);
  }
}

void ImportedWeights::check_compatible(const Source& source) {
  const std::string name = hf_name_of(source.pair.hf_name);
  const std::string place = folder_.path().string();
  const StoredTensor* stored = folder_.find(name);
  const std::vector<std::int64_t> wanted = extents_of(hf_shape(source.pair, source.longspan_names));
  if (stored == nullptr)
    throw DataError("{}: missing tensor {} of shape {} (required by {})",
                    place,
                    quote(name),
                    shape_text(wanted),
                    model_config_name);
  if (stored->shape != wanted)
    throw DataError("{}: tensor {}: expected shape {} according to {}, found {}",
                    place,
                    quote(name),
                    shape_text(wanted),
                    model_config_name,
                    shape_text(stored->shape));
  if (!dtype_of_stored(stored->dtype))
    throw DataError("{}: tensor {}: expected dtype F64, F32, BF16 or F16, found {}",
                    place,
                    quote(name),
                    stored->dtype);
  elements_[stored->dtype] += hf_shape(source.pair, source.longspan_names).elements();
}

void ImportedWeights::check_unexpected_tensors(const ModelValues& values) {
  std::set<std::string> known;
  for (const Source& source : sources_) known.insert(hf_name_of(source.pair.hf_name));
  if (architecture_.copies)
    for (const auto& [name, of] : architecture_.copies(values)) {
      const std::string copy = hf_name_of(name);
      if (!stand_ins_.contains(of) && is_left_out(copy)) continue;
      known.insert(copy);
      const std::string stored = hf_name_of(of);
      if (copy != stored && folder_.find(copy) != nullptr) check_copy(copy, stored);
    }
  if (architecture_.zeros)
    for (const auto& [name, shape] : architecture_.zeros(values)) {
      known.insert(hf_name_of(name));
      check_zeros(hf_name_of(name), shape);
    }
  for (const std::string& name : folder_.names()) {
    const std::size_t begin =
        has_prefix_ && name.starts_with(architecture_.prefix) ? architecture_.prefix.size() : 0;
    if (known.contains(name) || architecture_.is_constant(name.substr(begin))) continue;
    if (is_left_out(name)) {
      left_out_.push_back(name);
      continue;
    }
    throw DataError("{}: unexpected tensor {} (not part of {} according to {})",
                    folder_.path().string(),
                    quote(name),
                    architecture_.name,
                    model_config_name);
  }
}

void ImportedWeights::check_copy(const std::string& copy, const std::string& of) const {
  const StoredTensor& stored = *folder_.find(copy);
  const bool is_equal = stored.shape == folder_.find(of)->shape && dtype_of_stored(stored.dtype);
  const auto is_same = [&] {
    const Tensor a = folder_.read(copy), b = folder_.read(of);
    return std::memcmp(a.bytes(), b.bytes(), a.byte_size()) == 0;
  };
  if (!is_equal || !is_same())
    throw DataError("{}: tensor {} differs from {}, to which {} ties it",
                    folder_.path().string(),
                    quote(copy),
                    quote(of),
                    model_config_name);
}

void ImportedWeights::check_zeros(const std::string& name,
                                  const std::vector<std::int64_t>& shape) const {
  const StoredTensor* const stored = folder_.find(name);
  if (stored == nullptr) return;
  const auto refuse = [&](const std::string& found) {
    throw DataError("{}: tensor {}: expected zeros of shape {}, found {}",
                    folder_.path().string(),
                    quote(name),
                    shape_text(shape),
                    found);
  };
  if (stored->shape != shape) refuse("shape " + shape_text(stored->shape));
  if (!dtype_of_stored(stored->dtype)) refuse("dtype " + stored->dtype);
  const Tensor values = folder_.read(name);
  if (std::ranges::any_of(values.span<float>(), [](float value) { return value != 0; }))
    refuse("nonzero values");
}

Tensor ImportedWeights::make(std::size_t source, std::size_t index) const {
  const auto& [pair, here] = sources_[source];
  if (last_ != source) {
    read_ = Tensor();
    try {
      read_ = folder_.read(hf_name_of(pair.hf_name));
    } catch (const DataError& error) {
      problem_ = error.what();
      throw;
    }
    last_ = source;
  }
  return shard_range(pair, read_, here, index);
}

TrainingState ImportedWeights::state() const {
  TrainingState state;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const auto& [pair, here] = sources_[source];
    for (std::size_t index = 0; index < here.size(); ++index) {
      StateTensor tensor;
      tensor.name = pair.longspan_names[index];
      tensor.tensor = Tensor::empty(here[index], DType::f32, Device::meta(), MemoryTag::workspace);
      tensor.global_shape = here[index];
      tensor.offset.assign(static_cast<std::size_t>(here[index].dimensions()), 0);
      tensor.make = [this, source, index] { return make(source, index); };
      state.tensors.push_back(std::move(tensor));
    }
  }
  return state;
}

void export_weights(const Checkpoint& checkpoint,
                    const Architecture& architecture,
                    const ModelValues& values,
                    const std::filesystem::path& folder,
                    DType dtype,
                    std::int64_t max_file_bytes) {
  std::vector<TensorPair> pairs = architecture.tensors(values);
  std::erase_if(pairs, [&](const TensorPair& pair) {
    return pair.optional && !checkpoint.has(pair.longspan_names.front());
  });
  // A bare backbone has no name prefix.
  if (architecture.is_headless)
    for (TensorPair& pair : pairs)
      if (pair.hf_name.starts_with(architecture.prefix))
        pair.hf_name.erase(0, architecture.prefix.size());
  std::set<std::string> known;
  SafetensorsWriter::Tensors tensors;
  for (const TensorPair& pair : pairs) {
    known.insert(pair.longspan_names.begin(), pair.longspan_names.end());
    tensors.emplace_back(pair.hf_name,
                         extents_of(hf_shape(pair, longspan_shapes(checkpoint, pair))));
  }
  SafetensorsWriter::Tensors zeros;
  if (architecture.zeros) zeros = architecture.zeros(values);
  tensors.insert(tensors.end(), zeros.begin(), zeros.end());
  for (const CheckpointTensor& weight : weights_of(checkpoint))
    if (!known.contains(weight.name) && !is_of_adapter(weight.name))
      throw ConfigurationError("{}: {} does not support the parameter {}",
                               checkpoint.path().string(),
                               architecture.name,
                               weight.name);
  WeightsFolderWriter writer(folder, std::move(tensors), dtype, max_file_bytes);
  const double factor = adapter_factor(values);
  for (const TensorPair& pair : pairs) {
    const std::vector<Shape> here = longspan_shapes(checkpoint, pair);
    const DType saved = checkpoint.dtype_of(pair.longspan_names.front());
    const Tensor there =
        Tensor::empty(hf_shape(pair, here), saved, Device::cpu(), MemoryTag::workspace);
    for (std::size_t index = 0; index < here.size(); ++index) {
      const Tensor part = read_merged(checkpoint, pair.longspan_names[index], factor);
      require(part.dtype() == saved && (saved == DType::f32 || saved == DType::f64),
              "parameter \"{}\" has dtype {}",
              pair.longspan_names[index],
              name_of(part.dtype()));
      put_part(pair, part, here, index, there);
    }
    writer.write(pair.hf_name, there);
  }
  for (const auto& [name, shape] : zeros)
    writer.write(name,
                 Tensor::zeros(Shape(shape), DType::f32, Device::cpu(), MemoryTag::workspace));
  writer.finish();
}

}  // namespace longspan
