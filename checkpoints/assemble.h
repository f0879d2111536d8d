// Assembles the rank files of a save into a complete step.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/manifest.h"
#include "checkpoints/rank_file.h"

namespace longspan {

// Metadata of a tensor that this rank declares but does not own.
struct DeclaredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // global shape
};

// Throws Failure when no rank owns any part of a declared tensor, or when its dtype or global shape
// differ. Otherwise the missing tensor would be discovered only on restore.
void check_owned_somewhere(const std::vector<DeclaredTensor>& declared,
                           const std::vector<RankFileReport>& reports);

// Throws Failure, which names the scalar, where this rank differs from rank 0.
void check_same_scalars(const Scalars& mine, const Scalars& first);

// Writes the view and the manifest, after checking that the reports cover complete tensors and that
// their files exist. `reports` has one entry a rank, in rank order. On return the step is complete
// and durable. Throws Failure, and DataError when the manifest fails to read back.
void write_manifest(const std::filesystem::path& directory,
                    const CheckpointInfo& info,
                    const std::vector<RankFileReport>& reports);

// Writes and syncs the view of the manifest, next to its rank files. Omits empty tensors. Throws
// Failure.
ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace longspan
