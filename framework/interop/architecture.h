// Supported Hugging Face architectures: one file each, and the registry.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/interop/model_config.h"
#include "framework/interop/safetensors.h"

namespace longspan {

// Orientation of the Hugging Face matrix: [out, in] as here, or [in, out].
enum class Orientation : std::uint8_t { same, transposed };

struct TensorPair {
  std::string hf_name;
  // One tensor, or several that are concatenated along their first axis (before transposition),
  // such as queries, keys and values.
  std::vector<std::string> longspan_names;
  Orientation orientation = Orientation::same;
  // Number of equal parts of each tensor here whose rows alternate: part 0 of all, part 1 of all,
  // ... For a query and its gate, the number of heads.
  std::int64_t groups = 1;
  std::vector<std::int64_t> shape = {};  // of the Hugging Face tensor; empty: as here
  bool optional = false;                 // some models lack it
};

// Returns the Hugging Face shape for the shapes here, which may differ only in their first axis. A
// transposed tensor is a matrix. A different `shape` has as many elements.
Shape hf_shape(const TensorPair& pair, const std::vector<Shape>& here);

// Extracts tensor number `index` here from a Hugging Face tensor of the required shape.
Tensor shard_range(const TensorPair& pair,
                   const Tensor& there,
                   const std::vector<Shape>& here,
                   std::size_t index);

// Inverse of shard_range: copies tensor number `index` here into its part of `there`. Both are f32
// or f64 on the host.
void put_part(const TensorPair& pair,
              const Tensor& part,
              const std::vector<Shape>& here,
              std::size_t index,
              const Tensor& there);

// Special token ids of config.json and generation_config.json.

inline constexpr const char* generation_config_name = "generation_config.json";

// By key: "eos_token_id" -> 2. Absent tokens have no entry.
using TokenIds = std::map<std::string, std::int64_t>;

// Reads the ids of a seq2seq model. generation_config.json next to `config` takes precedence over
// `config`, and that over `otherwise`; null means none. Throws DataError for ids not below
// `vocabulary`, and for a forced end without an id.
TokenIds read_token_ids(const ModelConfig& config,
                        std::int64_t vocabulary,
                        const TokenIds& otherwise);

// Returns unsupported generation keys of both files, such as "num_beams".
std::vector<std::string> unsupported_generation_settings(const ModelConfig& config);

// Sets all keys that read_token_ids reads; null without an id.
void write_token_ids(const TokenIds& ids, nlohmann::ordered_json& config);

// Configuration values by key, as written: "model.hidden_size" -> "768". "none" means absent.
class ModelValues {
 public:
  explicit ModelValues(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Throws Failure for a missing key.
  const std::string& text(const std::string& key) const;
  bool is(const std::string& key, std::string_view wanted) const { return text(key) == wanted; }
  std::int64_t integer(const std::string& key) const;
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise) const;
  double number_or(const std::string& key, double otherwise) const;
  // Returns the elements of a list.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

// Configuration keys with their values in YAML.
using ModelSettings = std::vector<std::pair<std::string, std::string>>;

// Result of importing a config.json.
struct ImportedConfig {
  ModelSettings settings;
  std::vector<std::string> labels = {};   // class or tag names, by id
  std::int64_t num_labels = 0;            // from config.json, if inconsistent with its labels
  std::vector<std::int64_t> image = {};   // for image models: height, width and channels
  TokenIds token_ids = {};                // for seq2seq models
  std::vector<std::string> remarks = {};  // messages for the user
};

// Returns null where the directory has no tensor of this name.
using TensorFinder = std::function<const StoredTensor*(const std::string& name)>;

inline constexpr const char* pixels_config_name = "preprocessor_config.json";

// Several may have one model type, with different classes.
struct Architecture {
  std::string model_type;                       // of config.json
  std::string name;                             // "GPT-2"
  std::string family;                           // model.family
  std::vector<std::string> model_classes = {};  // in "architectures"; the first is exported
  std::string prefix;                           // of tensor names; absent in bare backbones

  // Throws DataError for settings that would change the model's function.
  std::function<ImportedConfig(const ModelConfig& config)> read;
  // Returns a config.json for a run with this configuration, from which `read` recovers the model.
  // Unsupported settings are dropped: export compares the result (export.h).
  std::function<nlohmann::ordered_json(const ModelValues& values)> write;
  // Returns all weights of such a model.
  std::function<std::vector<TensorPair>(const ModelValues& values)> tensors;
  // Returns whether a tensor is a constant rather than a weight; it is skipped. Names lack the
  // prefix.
  std::function<bool(std::string_view name)> is_constant;
  // Optional: aliases of shared weights, each with the primary name. If both are stored they must
  // be equal, unless `is_unsupported_tensor` accepts the alias. If only the alias is stored, it is
  // read.
  std::function<std::vector<std::pair<std::string, std::string>>(const ModelValues& values)>
      copies = {};
  // Optional: all-zero tensors without a counterpart here, with their shapes. Import checks those
  // that exist; export writes all.
  std::function<std::vector<std::pair<std::string, std::vector<std::int64_t>>>(
      const ModelValues& values)>
      zeros = {};
  // Keys of the family that do not affect such a model.
  std::vector<std::string> unused_keys = {};
  // Optional: resolves ambiguities of config.json by the existing tensors.
  std::function<void(const TensorFinder& find, ImportedConfig& meaning)> resolve = {};
  // Optional: legacy name of a weight; "" if it had no other.
  std::function<std::string(const std::string& name)> legacy_name = {};
  // Optional: returns whether a tensor has an unsupported purpose; import skips it.
  std::function<bool(std::string_view name)> is_unsupported_tensor = {};
  // The output head is untrained: only its optional tensors exist.
  bool is_headless = false;
  // Only part of the published model is imported; export writes another architecture.
  bool is_import_only = false;
  // Optional, for image models: returns preprocessor_config.json, with the pixel transformation.
  // `values` then also has the keys image.height, image.width and image.channels.
  std::function<nlohmann::ordered_json(const ModelValues& values)> write_pixels = {};
};

const std::vector<Architecture>& architectures();
// Returns their names.
std::vector<std::string> architecture_names();
// Throws DataError where config.json names no supported architecture.
const Architecture& architecture_of(const ModelConfig& config);

}  // namespace longspan

namespace longspan::bart {

// BART (Lewis et al. 2020) of Hugging Face `transformers`: family encoder_decoder with post-norm,
// learned positions and one embedding table.
Architecture architecture();

}  // namespace longspan::bart

namespace longspan::bert {

// BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019) of Hugging Face `transformers`: family
// encoder with learned positions, token types and post-norm. Supports sequence classification,
// tagging, and backbones with an untrained output head.
std::vector<Architecture> architectures();

}  // namespace longspan::bert

namespace longspan::gpt2 {

// GPT-2 (Radford et al. 2019) of Hugging Face `transformers`: family decoder with learned positions
// and pre-norm.
Architecture architecture();

}  // namespace longspan::gpt2

namespace longspan::llama {

// Llama 2 and 3 (Touvron et al. 2023; Dubey et al. 2024), Mistral (Jiang et al. 2023), Qwen 2, 3
// and 3.5 (Yang et al. 2024, 2025) of Hugging Face `transformers`. Family decoder with RoPE,
// RMSNorm before the sublayers and gated feed-forward layers. Of Qwen 3.5, the dense models and
// their text part (framework/interop/hybrid_layers.h).
std::vector<Architecture> architectures();

}  // namespace longspan::llama

namespace longspan::mamba2 {

// Mamba-2 (Dao and Gu 2024) of Hugging Face `transformers`: family decoder with mamba2 layers,
// RMSNorm before them and no feed-forward layers.
Architecture architecture();

}  // namespace longspan::mamba2

namespace longspan::t5 {

// T5 (Raffel et al. 2020) and its version 1.1 of Hugging Face `transformers`. Family
// encoder_decoder with a learned score bias per bucket of relative positions, RMSNorm before the
// sublayers and no other biases.
Architecture architecture();

}  // namespace longspan::t5

namespace longspan::vit {

// ViT (Dosovitskiy et al. 2021) of Hugging Face `transformers`: family encoder with
// model.patch_size and pre-norm. Supports image classification, and backbones with an untrained
// output head. preprocessor_config.json defines the pixel transformation.
std::vector<Architecture> architectures();

}  // namespace longspan::vit
