// manifest.json: what a checkpoint holds and the hashes of all of it.
//
// One JSON object: "format", "version", "run_id", "step", "saved_at" (seconds since 1970; not in
// older ones), "layout" {data, context, tensor}, "configuration", "scalars" (a double as {"f64":
// its 16 hexadecimal digits, "value": for people}), "files" [{name, bytes, hash}] in rank order,
// "view" {name, bytes, hash}, "tensors" {name: {dtype, shape, pieces [{file, dataset, offset,
// shape, hash}]}}; "file" is an index into "files". The last member, "manifest_hash", is the hash
// of all bytes before its line. Hashes are XXH3 with 128 bits, of a piece's elements in row-major
// little-endian order.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/box.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/files.h"
#include "checkpoints/hash.h"

namespace longspan {

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* view_name = "view.h5";
inline constexpr std::int64_t most_steps = 999'999'999;

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

// "rank-00003.h5".
std::string rank_file_name(int rank);
// Empty when the name is one of a tensor, otherwise what is wrong with it.
std::string name_problem(const std::string& name);
// The dataset of a rank's n-th piece of a tensor: its name, then "name@1", ...
std::string dataset_name(const std::string& tensor, int piece);
// "0011aaff..." for the bits of a double, and back; throws DataError beginning with `place`.
std::string bits_of(double value);
double double_of_bits(const std::string& digits, const std::string& place);

// Throws Failure when the manifest cannot be written as text (such as text that is not UTF-8).
std::string manifest_text(const Manifest& manifest);
// The text with the hash line put (again) at its end.
std::string with_manifest_hash(const std::string& text_without_hash);
// Checks what the text may be at all (framework/core/json_bounds.h), the hash, every type and
// range, that names are plain, that the pieces of each tensor cover it exactly once, and that each
// file has the bytes for its pieces and not many more. Throws DataError beginning with `place`.
Manifest manifest_of_text(const std::string& text, const std::string& place);
// Of the step in that directory. Throws DataError.
Manifest read_manifest(const std::filesystem::path& directory);

// A piece, with what it takes to read it.
struct FilePiece {
  const ManifestPiece* piece = nullptr;
  DType dtype = DType::f32;
};
// The pieces of each file, in the order of the tensors' names. The manifest must outlive them.
std::vector<std::vector<FilePiece>> pieces_by_file(const Manifest& manifest);

}  // namespace longspan
