// view.h5: virtual datasets that show whole tensors to h5py and h5dump.
#pragma once

#include <filesystem>

#include "checkpoints/manifest.h"

namespace longspan {

// Writes the view of what the manifest describes beside its rank files and makes it durable.
// Tensors without elements are not in it. Throws Failure.
ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace longspan
