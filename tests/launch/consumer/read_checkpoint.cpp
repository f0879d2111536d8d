// Reads the newest valid checkpoint of a folder and prints the norms of its weights:
//   read_checkpoint FOLDER-OF-CHECKPOINTS
#include <cmath>
#include <iostream>

#include "checkpoints/checkpoint.h"

using namespace longspan;

namespace {

// Returns the full tensor, assembled from the shards of all ranks.
Tensor whole(const Checkpoint& checkpoint, const std::string& name) {
  TrainingState wanted;
  wanted.add(name,
             Tensor::empty(checkpoint.shape_of(name), checkpoint.dtype_of(name), Device::cpu()),
             true);
  checkpoint.read(wanted.tensors);
  return wanted.tensors.front().tensor;
}

double norm(const Tensor& tensor) {
  double squares = 0;
  for (const float value : tensor.span<float>()) squares += double{value} * double{value};
  return std::sqrt(squares);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2)
    throw ConfigurationError(
        "read_checkpoint: expected 1 argument, the folder of checkpoints; found {}", count - 1);
  const CheckpointSearch search = latest_valid_checkpoint(arguments[1]);
  for (const std::string& sentence : search.skipped) std::cerr << sentence << "\n";
  if (!search.found) throw DataError("{}: there is no checkpoint that verifies", arguments[1]);
  const Checkpoint checkpoint = Checkpoint::open(search.found->path);
  std::cout << "step " << checkpoint.info().step << " of " << checkpoint.info().layout.size()
            << " rank\n";
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    std::cout << tensor.name << " " << tensor.shape.to_string() << " " << name_of(tensor.dtype);
    if (tensor.dtype == DType::f32) std::cout << " " << norm(whole(checkpoint, tensor.name));
    std::cout << "\n";
  }
} catch (const Error& error) {
  // A message of one line, and the exit code of the type of error.
  std::cerr << error.what() << "\n";
  return static_cast<int>(error.code());
}
