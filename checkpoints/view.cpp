#include "checkpoints/view.h"

#include "checkpoints/hdf5.h"

namespace longspan {

ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest) {
  const auto path = directory / view_name;
  hdf5::Writer file(path);
  file.describe("run_id", manifest.info.run_id);
  file.describe("step", fmt::format("{}", manifest.info.step));
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.pieces.empty()) continue;
    std::vector<hdf5::VirtualPart> parts;
    for (const ManifestPiece& piece : tensor.pieces)
      parts.push_back({rank_file_name(piece.file), piece.dataset, piece.box});
    file.create_virtual(name, tensor.dtype, full_box(tensor.shape).shape, parts);
  }
  file.close();
  sync_file(path);
  try {
    const Descriptor written = open_regular(path);
    const hdf5::Reader reader(path, written.get());
    for (const auto& [name, tensor] : manifest.tensors)
      if (!tensor.pieces.empty()) reader.require_virtual(name, tensor.pieces.size());
    return {view_name, hash_file(written, path)};
  } catch (const DataError& error) {
    throw Failure("the written view cannot be read back: {}", error.what());
  }
}

}  // namespace longspan
