// manifest.json: content and hashes of a checkpoint.
//
// A JSON object with these members:
// "format", "version", "run_id", "step"
// "saved_at": Unix time; absent in older versions
// "layout": {data, context, tensor}
// "configuration"
// "scalars": a double is {"f64": its 16 hexadecimal digits, "value": for readers}
// "files": [{name, bytes, hash}], in rank order
// "view": {name, bytes, hash}
// "tensors": {name: {dtype, shape, pieces [{file, dataset, offset, shape, hash}]}}; "file" is an
// index into "files"
// "manifest_hash": the last member, the hash of all bytes before its line
// Hashes are XXH3-128. That of a piece covers its elements in row-major little-endian order.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/box.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/files.h"

namespace longspan {

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* view_name = "view.h5";
inline constexpr std::int64_t max_steps = 999'999'999;

struct ManifestFile {
  std::string name;
  FileHash content;
};

struct ManifestPiece {
  int file = 0;
  std::string dataset;
  Box box;
  Hash hash;
};

struct ManifestTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<ManifestPiece> pieces;
};

struct Manifest {
  CheckpointInfo info;
  Scalars scalars;
  std::vector<ManifestFile> files;
  ManifestFile view;
  std::map<std::string, ManifestTensor> tensors;
};

// Returns "rank-00003.h5".
std::string rank_file_name(int rank);
// Returns "" for a valid tensor name, otherwise an error.
std::string validate_name(const std::string& name);
// Returns the dataset of a rank's n-th piece of a tensor: its name, then "name@1", ...
std::string dataset_name(const std::string& tensor, int piece);
// Convert the bits of a double to "0011aaff..." and back. Throws DataError prefixed with `place`.
std::string bits_of(double value);
double double_of_bits(const std::string& digits, const std::string& place);

// Throws Failure when the manifest cannot be serialized, such as for text that is not UTF-8.
std::string manifest_text(const Manifest& manifest);
// Returns the text with the hash line appended.
std::string with_manifest_hash(const std::string& text_without_hash);
// Parses and checks a manifest: JSON bounds (framework/core/json_bounds.h), the hash, types and
// ranges, and plain names. The pieces of each tensor must cover it exactly once. Each file must
// have the bytes of its pieces and little overhead. Throws DataError prefixed with `place`.
Manifest manifest_of_text(const std::string& text, const std::string& place);
// Reads the manifest of a step directory. Throws DataError.
Manifest read_manifest(const std::filesystem::path& directory);

// A piece, with the metadata to read it.
struct FilePiece {
  const ManifestPiece* piece = nullptr;
  DType dtype = DType::f32;
};
// Returns the pieces of each file, sorted by tensor name. The manifest must outlive them.
std::vector<std::vector<FilePiece>> pieces_by_file(const Manifest& manifest);

}  // namespace longspan
