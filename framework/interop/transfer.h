// Converts weights between a directory and a checkpoint, with one tensor in memory at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/interop/architecture.h"
#include "framework/interop/weights_folder.h"

namespace longspan {

// Checkpoint scalar with the Architecture::model_type of the imported model.
inline constexpr const char* imported_type_scalar = "import/model_type";
// Checkpoint scalar with its ModelConfig::special_tokens as JSON, if any.
inline constexpr const char* special_tokens_scalar = "import/special_tokens";

// State to save for a model whose weights are in a directory.
class ImportedWeights {
 public:
  // `weights`: full weights of the model; their tensors may be on a dry device. Throws DataError,
  // which names the tensor, for missing and unexpected tensors, another shape, and unsupported
  // dtypes. Throws it also for unequal copies of shared weights, and nonzero values where zeros are
  // required.
  ImportedWeights(const WeightsFolder& folder,
                  const Architecture& architecture,
                  const ModelValues& values,
                  const std::vector<StateTensor>& weights);

  // Each tensor is read when it is written. This object must outlive the state.
  TrainingState state() const;
  // Error of a tensor read, which aborts the requesting save.
  const std::optional<std::string>& problem() const { return problem_; }
  // Dtypes in the directory, each with its number of weights.
  const std::map<std::string, std::int64_t>& elements() const { return elements_; }
  // Weights of the model that are missing in the directory, where the Architecture allows that.
  const std::vector<std::string>& missing() const { return missing_; }
  // Tensors of the directory without a counterpart: Architecture::is_unsupported_tensor.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Source {
    TensorPair pair;
    std::vector<Shape> longspan_names;
  };
  std::string hf_name_of(const std::string& name) const;
  bool is_left_out(const std::string& name) const;
  void check_all(const std::vector<StateTensor>& weights);
  void check_compatible(const Source& source);
  void find_stand_ins(const ModelValues& values);
  void check_unexpected_tensors(const ModelValues& values);
  void check_copy(const std::string& copy, const std::string& of) const;
  void check_zeros(const std::string& name, const std::vector<std::int64_t>& shape) const;
  Tensor make(std::size_t source, std::size_t index) const;

  const WeightsFolder& folder_;
  const Architecture& architecture_;
  bool has_prefix_;
  // Shared weights stored only under an alias: that alias.
  std::map<std::string, std::string> stand_ins_;
  std::vector<Source> sources_;
  std::map<std::string, std::int64_t> elements_;
  std::vector<std::string> missing_;
  std::vector<std::string> left_out_;
  // Index of the last tensor read. Tensors fused there are consecutive here.
  mutable std::size_t last_ = SIZE_MAX;
  mutable Tensor read_;
  mutable std::optional<std::string> problem_;
};

// Writes the weights of a checkpoint into a directory, with merged adapters. Throws
// ConfigurationError for a weight that the architecture lacks. Throws DataError for a corrupt
// checkpoint and for a weight that overflows the dtype.
void export_weights(const Checkpoint& checkpoint,
                    const Architecture& architecture,
                    const ModelValues& values,
                    const std::filesystem::path& folder,
                    DType dtype,
                    std::int64_t max_file_bytes);

}  // namespace longspan
