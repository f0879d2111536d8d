// Weights from a folder into a checkpoint and back, one tensor in memory at a time.
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

// The scalar of a checkpoint that says of which Architecture::model_type it was imported.
inline constexpr const char* imported_type_scalar = "import/model_type";
// The one that holds ModelConfig::special_tokens of it as JSON, where there are any.
inline constexpr const char* special_tokens_scalar = "import/special_tokens";

// What a save of a model is to write whose weights lie in a folder.
class ImportedWeights {
 public:
  // `weights`: those of the model, whole, whose tensors may lie on a dry device. Throws DataError
  // that names the tensor where the folder lacks one, has one more, or has one of another shape or
  // of a dtype that is none of weights; and where a copy of shared weights is not the same, or what
  // is to be zero is not.
  ImportedWeights(const WeightsFolder& folder,
                  const Architecture& architecture,
                  const ModelValues& values,
                  const std::vector<StateTensor>& weights);

  // Each is read when it is written. This must outlive it.
  TrainingState state() const;
  // Why a tensor could not be read, which ends the save that asked for it.
  const std::optional<std::string>& problem() const { return problem_; }
  // The dtypes in the folder, each with how many weights it has.
  const std::map<std::string, std::int64_t>& elements() const { return elements_; }
  // Weights of the model that the folder does not have, of an Architecture that may lack them.
  const std::vector<std::string>& missing() const { return missing_; }
  // Tensors of the folder that the model does not have: Architecture::is_left_out.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Source {
    TensorPair pair;
    std::vector<Shape> longspan_names;
  };
  std::string name_there(const std::string& name) const;
  bool is_left_out(const std::string& name) const;
  void judge_all(const std::vector<StateTensor>& weights);
  void check_compatible(const Source& source);
  void find_stand_ins(const ModelValues& values);
  void check_unexpected_tensors(const ModelValues& values);
  void judge_copy(const std::string& copy, const std::string& of) const;
  void judge_zeros(const std::string& name, const std::vector<std::int64_t>& shape) const;
  Tensor make(std::size_t source, std::size_t index) const;

  const WeightsFolder& folder_;
  const Architecture& architecture_;
  bool has_prefix_;
  // Shared weights that are stored only under another of their names: that name.
  std::map<std::string, std::string> stand_ins_;
  std::vector<Source> sources_;
  std::map<std::string, std::int64_t> elements_;
  std::vector<std::string> missing_;
  std::vector<std::string> left_out_;
  // The last one that was read: what lies in one tensor there follows one another here.
  mutable std::size_t last_ = SIZE_MAX;
  mutable Tensor read_;
  mutable std::optional<std::string> problem_;
};

// Writes the weights of a checkpoint into a folder, adapters merged into them. Throws
// ConfigurationError that names a weight which the architecture has not, DataError where the
// checkpoint is damaged or a weight is too large for the dtype.
void export_weights(const Checkpoint& checkpoint,
                    const Architecture& architecture,
                    const ModelValues& values,
                    const std::filesystem::path& folder,
                    DType dtype,
                    std::int64_t most_file_bytes);

}  // namespace longspan
