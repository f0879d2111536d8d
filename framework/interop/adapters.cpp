#include "framework/interop/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoints/files.h"
#include "framework/core/dispatch.h"
#include "framework/interop/safetensors.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// Prefixes of checkpoint tensors that are not weights.
constexpr std::array<std::string_view, 4> no_weights = {
    "optimizer/", "mems/", "recurrent_state/", "data/"};
constexpr std::string_view weight_of = "/weight";

// Joins the adapters of layers that are fused into one matrix in PEFT. A is the vertical
// concatenation; B is block-diagonal, so that each layer uses only its rows of A.
struct JoinedAdapter {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  std::vector<std::string> layers;
  std::int64_t rank = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::vector<std::int64_t> out_begin;  // per layer
  std::int64_t groups = 1;              // as TensorPair::groups

  Tensor down(const Checkpoint& checkpoint) const;
  Tensor up(const Checkpoint& checkpoint) const;
};

Tensor JoinedAdapter::down(const Checkpoint& checkpoint) const {
  const DType dtype = checkpoint.dtype_of(layers.front() + adapter_down);
  Tensor whole = Tensor::empty({rank, in}, dtype, Device::cpu(), MemoryTag::workspace);
  std::int64_t row = 0;
  for (const std::string& layer : layers) {
    const Tensor part = read_full(checkpoint, layer + adapter_down);
    whole.slice(row, row + part.shape()[0]).copy_from(part);
    row += part.shape()[0];
  }
  return whole;
}

Tensor JoinedAdapter::up(const Checkpoint& checkpoint) const {
  const DType dtype = checkpoint.dtype_of(layers.front() + adapter_up);
  const Tensor whole = Tensor::zeros({out, rank}, dtype, Device::cpu(), MemoryTag::workspace);
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t column = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Tensor part = read_full(checkpoint, layers[i] + adapter_up);
    const std::int64_t width = part.shape()[1], rows = part.shape()[0] / groups;
    for (std::int64_t row = 0; row < part.shape()[0]; ++row) {
      const std::int64_t place = (row / rows * out + out_begin[i]) / groups + row % rows;
      std::copy_n(part.bytes() + row * width * element,
                  width * element,
                  whole.bytes() + (place * rank + column) * element);
    }
    column += width;
  }
  return whole;
}

std::vector<JoinedAdapter> joined_adapters(const Checkpoint& checkpoint,
                                           const std::vector<TensorPair>& pairs) {
  std::vector<JoinedAdapter> all;
  for (const TensorPair& pair : pairs) {
    JoinedAdapter joined;
    joined.groups = pair.groups;
    for (const std::string& weight : pair.longspan_names) {
      const Shape& shape = checkpoint.shape_of(weight);
      if (const auto layer = adapted_layer(checkpoint, weight)) {
        joined.layers.push_back(*layer);
        joined.rank += checkpoint.shape_of(*layer + adapter_down)[0];
        joined.in = shape[1];
        joined.out_begin.push_back(joined.out);
      }
      joined.out += shape[0];
    }
    if (joined.layers.empty()) continue;
    joined.module = pair.hf_name.substr(0, pair.hf_name.rfind('.'));
    all.push_back(std::move(joined));
  }
  return all;
}

std::string last_word(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Returns the modules with adapters. A last name component suffices where all modules of that name
// have one; otherwise the full names are listed.
std::vector<std::string> targets_of(const std::vector<JoinedAdapter>& adapters,
                                    const std::vector<TensorPair>& pairs) {
  std::set<std::string> adapted;
  for (const JoinedAdapter& each : adapters) adapted.insert(each.module);
  std::set<std::string> in_part;  // last components
  for (const TensorPair& pair : pairs) {
    const std::string module = pair.hf_name.substr(0, pair.hf_name.rfind('.'));
    if (!adapted.contains(module)) in_part.insert(last_word(module));
  }
  std::vector<std::string> targets;
  for (const std::string& module : adapted) {
    const std::string word = last_word(module);
    const std::string& target = in_part.contains(word) ? module : word;
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
  }
  return targets;
}

nlohmann::ordered_json number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return value;
}

nlohmann::ordered_json config_of(const std::vector<JoinedAdapter>& adapters,
                                 const std::vector<TensorPair>& pairs,
                                 const ModelValues& values,
                                 const std::string& base) {
  const std::int64_t rank = values.integer("training.lora.rank");
  const double factor = adapter_factor(values);
  auto ranks = nlohmann::ordered_json::object(), alphas = nlohmann::ordered_json::object();
  for (const JoinedAdapter& each : adapters) {
    if (each.rank == rank) continue;
    ranks[each.module] = each.rank;
    alphas[each.module] = number(factor * static_cast<double>(each.rank));
  }
  const bool is_transposed = std::ranges::any_of(
      pairs, [](const TensorPair& pair) { return pair.orientation == Orientation::transposed; });
  const bool is_decoder = values.text("model.family") == "decoder";
  return {
      {"peft_type", "LORA"},
      {"task_type", is_decoder ? nlohmann::ordered_json("CAUSAL_LM") : nlohmann::ordered_json()},
      {"base_model_name_or_path",
       base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(base)},
      {"r", rank},
      {"lora_alpha", number(factor * static_cast<double>(rank))},
      {"lora_dropout", values.number_or("training.lora.dropout", 0)},
      {"target_modules", targets_of(adapters, pairs)},
      {"rank_pattern", std::move(ranks)},
      {"alpha_pattern", std::move(alphas)},
      {"bias", "none"},
      {"fan_in_fan_out", is_transposed},
      {"modules_to_save", nullptr},
      {"inference_mode", true}};
}

}  // namespace

std::vector<CheckpointTensor> weights_of(const Checkpoint& checkpoint) {
  std::vector<CheckpointTensor> weights;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const auto is_in = [&](std::string_view folder) { return tensor.name.starts_with(folder); };
    if (std::ranges::none_of(no_weights, is_in)) weights.push_back(tensor);
  }
  return weights;
}

bool is_of_adapter(std::string_view weight) {
  return weight.ends_with(adapter_down) || weight.ends_with(adapter_up);
}

std::optional<std::string> adapted_layer(const Checkpoint& checkpoint, const std::string& weight) {
  if (!weight.ends_with(weight_of)) return std::nullopt;
  const std::string layer = weight.substr(0, weight.size() - weight_of.size());
  return checkpoint.has(layer + adapter_down) ? std::optional(layer) : std::nullopt;
}

Tensor read_full(const Checkpoint& checkpoint, const std::string& name) {
  const Shape& shape = checkpoint.shape_of(name);
  StateTensor wanted;
  wanted.name = name;
  wanted.tensor =
      Tensor::empty(shape, checkpoint.dtype_of(name), Device::cpu(), MemoryTag::workspace);
  wanted.global_shape = shape;
  wanted.offset.assign(static_cast<std::size_t>(shape.dimensions()), 0);
  checkpoint.read(wanted);
  return wanted.tensor;
}

Tensor read_merged(const Checkpoint& checkpoint, const std::string& weight, double factor) {
  const Tensor merged = read_full(checkpoint, weight);
  const auto layer = adapted_layer(checkpoint, weight);
  if (!layer) return merged;
  const Tensor up = read_full(checkpoint, *layer + adapter_up);
  const Tensor down = read_full(checkpoint, *layer + adapter_down);
  on(merged.device(), [&](auto backend) {
    scale(backend, factor, up, up);
    matmul(backend, {.a = up, .b = down, .c = merged, .accumulate = true});
  });
  return merged;
}

double adapter_factor(const ModelValues& values) {
  const double rank = values.number_or("training.lora.rank", 1);
  return values.number_or("training.lora.alpha", rank) / rank;
}

void export_adapters(const Checkpoint& checkpoint,
                     const Architecture& architecture,
                     const ModelValues& values,
                     const std::string& base,
                     const std::filesystem::path& folder,
                     DType dtype) {
  const std::vector<TensorPair> pairs = architecture.tensors(values);
  const std::vector<JoinedAdapter> adapters = joined_adapters(checkpoint, pairs);
  if (adapters.empty())
    throw ConfigurationError(
        "--adapter-only: {} has no adapters; omit it to export the whole model",
        checkpoint.path().string());
  if (!values.texts("training.lora.modules_to_save").empty())
    throw ConfigurationError(
        "--adapter-only cannot be combined with training.lora.modules_to_save: {}; omit it to "
        "export the whole model",
        values.text("training.lora.modules_to_save"));
  const auto name = [](const JoinedAdapter& each, const char* part) {
    return fmt::format("base_model.model.{}.{}.weight", each.module, part);
  };
  SafetensorsWriter::Tensors tensors;
  for (const JoinedAdapter& each : adapters) {
    tensors.emplace_back(name(each, "lora_A"), std::vector<std::int64_t>{each.rank, each.in});
    tensors.emplace_back(name(each, "lora_B"), std::vector<std::int64_t>{each.out, each.rank});
  }
  SafetensorsWriter writer(folder / "adapter_model.safetensors", std::move(tensors), dtype);
  for (const JoinedAdapter& each : adapters) {
    writer.write(name(each, "lora_A"), each.down(checkpoint));
    writer.write(name(each, "lora_B"), each.up(checkpoint));
  }
  writer.finish();
  write_text_file(folder / "adapter_config.json",
                  config_of(adapters, pairs, values, base).dump(2) + "\n");
}

}  // namespace longspan
