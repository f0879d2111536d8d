// view.h5: virtual datasets that present full tensors to h5py and h5dump.
#pragma once

#include <filesystem>

#include "checkpoints/manifest.h"

namespace longspan {

// Writes and syncs the view of the manifest, next to its rank files. Omits empty tensors. Throws
// Failure.
ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace longspan
