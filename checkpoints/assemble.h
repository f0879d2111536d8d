// Makes one step of what the ranks wrote.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/rank_file.h"

namespace longspan {

// What a rank says of a tensor that it does not own.
struct DeclaredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // of the whole
};

// Throws Failure when no rank owns any of a tensor that this rank declares, or when its dtype or
// global shape differ: it would be missing, and nobody would know until it is needed.
void check_owned_somewhere(const std::vector<DeclaredTensor>& declared,
                           const std::vector<RankFileReport>& reports);

// Throws Failure that names the scalar in which this rank differs from rank 0.
void check_same_scalars(const Scalars& mine, const Scalars& first);

// Checks that the reports, one a rank in rank order, make whole tensors and that their files are in
// the directory; writes the view and the manifest. The step is complete and durable when this
// returns. Throws Failure, DataError when the manifest does not read back.
void write_manifest(const std::filesystem::path& directory,
                    const CheckpointInfo& info,
                    const std::vector<RankFileReport>& reports);

}  // namespace longspan
