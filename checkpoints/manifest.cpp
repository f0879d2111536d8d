#include "checkpoints/manifest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoints/json_fields.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

constexpr const char* format_name = "longspan checkpoint";
constexpr int format_version = 1;
constexpr int max_ranks = 99'999;
// About 6 million pieces of 180 bytes. 4096 ranks need a tenth of that for 10,000 tensors that 8
// ranks shard, with an optimizer and recurrent state.
constexpr std::int64_t max_manifest_bytes = std::int64_t{1} << 30;
constexpr std::size_t max_name = 512;
constexpr std::size_t max_scalars = 10'000;
constexpr std::size_t max_run_id = 200;
constexpr std::int64_t latest_date = 253'402'300'799;  // end of the year 9999
// HDF5 adds some hundred bytes per dataset and group, plus the padding of a last chunk. A larger
// file has unexpected content.
constexpr std::int64_t max_overhead = std::int64_t{1} << 20;
constexpr std::int64_t max_overhead_of_piece = std::int64_t{64} << 10;

constexpr std::string_view hash_line_begin = ",\n\"manifest_hash\": \"";
constexpr std::string_view hash_line_end = "\"\n}\n";
constexpr std::size_t hash_digits = 32;

CheckpointInfo info_of_json(const Json& json, const std::string& place) {
  CheckpointInfo info;
  info.run_id = text_of(member(json, "run_id", place), place + ": run_id");
  if (info.run_id.size() > max_run_id)
    throw DataError("{}: run_id: expected at most {} characters, found {}",
                    place,
                    max_run_id,
                    quote(info.run_id));
  info.step = integer_of(member(json, "step", place), 0, max_steps, place + ": step");
  if (json.contains("saved_at"))
    info.saved_at = integer_of(json["saved_at"], 0, latest_date, place + ": saved_at");
  info.configuration = text_of(member(json, "configuration", place), place + ": configuration");
  const std::string where = place + ": layout";
  const Json& layout = object_of(member(json, "layout", place), where);
  const auto axis = [&](const char* name) {
    return static_cast<int>(integer_of(member(layout, name, where), 1, max_ranks, where));
  };
  info.layout = {axis("data"), axis("context"), axis("tensor")};
  // Written only if true, because the format is older than the key.
  if (layout.contains("sequence")) info.layout.sequence = true;
  if (std::int64_t{info.layout.data} * info.layout.context > max_ranks ||
      std::int64_t{info.layout.data} * info.layout.context * info.layout.tensor > max_ranks)
    throw DataError("{}: expected at most {} ranks", where, max_ranks);
  return info;
}

// A file stores the elements of its pieces uncompressed, so that file sizes bound allocations.
// Files with unexplained bytes are rejected without reading them.
void check_file_sizes(const Manifest& manifest, const std::string& place) {
  std::vector<std::int64_t> left, explained;
  for (const ManifestFile& file : manifest.files) {
    left.push_back(file.content.bytes);
    explained.push_back(max_overhead);
  }
  std::int64_t view_explained = max_overhead;
  std::set<std::pair<int, std::string_view>> datasets;
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const ManifestPiece& piece : tensor.pieces) {
      const auto file = static_cast<std::size_t>(piece.file);
      const std::int64_t bytes =
          piece.box.shape.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
      left[file] -= bytes;
      if (left[file] < 0)
        throw DataError(
            "{}: tensor \"{}\": pieces exceed {}", place, name, rank_file_name(piece.file));
      explained[file] += 2 * bytes + max_overhead_of_piece;
      view_explained += max_overhead_of_piece;
      if (!datasets.emplace(piece.file, piece.dataset).second)
        throw DataError("{}: tensor \"{}\": duplicate dataset \"{}\" of {}",
                        place,
                        name,
                        piece.dataset,
                        rank_file_name(piece.file));
    }
  }
  const auto require_explained = [&](const ManifestFile& file, std::int64_t most) {
    if (file.content.bytes > most)
      throw DataError("{}: {}: expected at most {} bytes for its tensors, found {}",
                      place,
                      file.name,
                      most,
                      file.content.bytes);
  };
  for (std::size_t file = 0; file < manifest.files.size(); ++file)
    require_explained(manifest.files[file], explained[file]);
  require_explained(manifest.view, view_explained);
}

void check_coverage(const Manifest& manifest, const std::string& place) {
  for (const auto& [name, tensor] : manifest.tensors) {
    std::vector<Box> boxes;
    for (const ManifestPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    const auto problem = validate_coverage(full_box(tensor.shape).shape, boxes);
    if (!problem.empty()) throw DataError("{}: tensor \"{}\": {}", place, name, problem);
  }
}

// Requires text within the JSON bounds.
Json checked_manifest_json(const std::string& text, const std::string& place) {
  const std::size_t tail = hash_line_begin.size() + hash_digits + hash_line_end.size();
  const std::size_t body = text.size() < tail ? 0 : text.size() - tail;
  const std::string_view line = std::string_view(text).substr(body);
  if (line.size() != tail || !line.starts_with(hash_line_begin) || !line.ends_with(hash_line_end))
    throw DataError("{}: is truncated or corrupt: no hash at the end", place);
  const Hash wanted = Hash::from_string(line.substr(hash_line_begin.size(), hash_digits), place);
  if (hash_of(std::string_view(text).substr(0, body)) != wanted)
    throw DataError("{}: is corrupt: hash mismatch", place);
  return parse_json(text, place);
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.h5", rank); }

std::string validate_name(const std::string& name) {
  if (name.empty() || name.size() > max_name)
    return fmt::format("expected a name of 1 to {} characters", max_name);
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return fmt::format("invalid name component {}", quote(part));
    for (const char letter : part)
      if (!(letter >= 'a' && letter <= 'z') && !(letter >= 'A' && letter <= 'Z') &&
          !(letter >= '0' && letter <= '9') && letter != '_' && letter != '-' && letter != '.')
        return "expected a name of letters, digits, '_', '-', '.' and '/' only";
    begin = end + 1;
  }
  return {};
}

std::string dataset_name(const std::string& tensor, int piece) {
  return piece == 0 ? tensor : fmt::format("{}@{}", tensor, piece);
}

std::string with_manifest_hash(const std::string& text_without_hash) {
  return fmt::format("{}{}{}{}",
                     text_without_hash,
                     hash_line_begin,
                     hash_of(text_without_hash).to_string(),
                     hash_line_end);
}

std::string manifest_text(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  try {
    std::vector<std::string> files, tensors;
    for (const ManifestFile& file : manifest.files) files.push_back(json_of(file).dump());
    for (const auto& [name, tensor] : manifest.tensors)
      tensors.push_back(Json(name).dump() + ": " + json_of(tensor).dump());
    // One entry a line, for readability and diff.
    return with_manifest_hash(fmt::format(
        "{{\n\"format\": \"{}\",\n\"version\": {},\n\"run_id\": {},\n\"step\": {},\n{}"
        "\"layout\": {{\"data\": {}, \"context\": {}, \"tensor\": {}{}}},\n"
        "\"configuration\": {},\n\"scalars\": {},\n\"files\": [\n{}\n],\n\"view\": {},\n"
        "\"tensors\": {{\n{}\n}}",
        format_name,
        format_version,
        Json(info.run_id).dump(),
        info.step,
        info.saved_at > 0 ? fmt::format("\"saved_at\": {},\n", info.saved_at) : "",
        info.layout.data,
        info.layout.context,
        info.layout.tensor,
        info.layout.sequence ? ", \"sequence\": true" : "",
        Json(info.configuration).dump(),
        json_of(manifest.scalars).dump(),
        fmt::join(files, ",\n"),
        json_of(manifest.view).dump(),
        fmt::join(tensors, ",\n")));
  } catch (const Json::exception& error) {
    throw Failure("the checkpoint's manifest cannot be written as JSON: {}", error.what());
  }
}

namespace {

Manifest manifest_of_json(const Json& json, const std::string& place) {
  object_of(json, place);
  if (text_of(member(json, "format", place), place) != format_name)
    throw DataError("{}: not a manifest of a Longspan checkpoint", place);
  if (const auto& version = member(json, "version", place); version != format_version)
    throw DataError(
        "{}: expected format version {}, found {}", place, format_version, found_text(version));
  Manifest manifest;
  manifest.info = info_of_json(json, place);
  manifest.scalars = scalars_of_json(member(json, "scalars", place), place);
  if (manifest.scalars.values().size() > max_scalars)
    throw DataError("{}: expected at most {} scalars", place, max_scalars);
  const std::string where = place + ": files";
  for (const Json& entry : array_of(member(json, "files", place), where)) {
    ManifestFile file = file_of_json(entry, where);
    const std::string wanted = rank_file_name(static_cast<int>(manifest.files.size()));
    if (file.name != wanted)
      throw DataError("{}: expected \"{}\", found {}", where, wanted, quote(file.name));
    manifest.files.push_back(std::move(file));
  }
  const auto ranks = static_cast<std::size_t>(manifest.info.layout.size());
  if (manifest.files.size() != ranks)
    throw DataError(
        "{}: expected one for each of {} ranks, found {}", where, ranks, manifest.files.size());
  manifest.view = file_of_json(member(json, "view", place), place + ": view");
  if (manifest.view.name != view_name)
    throw DataError(
        "{}: expected the view \"{}\", found {}", place, view_name, quote(manifest.view.name));
  const Json& tensors = object_of(member(json, "tensors", place), place + ": tensors");
  for (const auto& [name, entry] : tensors.items())
    manifest.tensors[name] = tensor_of_json(entry, name, static_cast<int>(ranks), place);
  check_file_sizes(manifest, place);
  check_coverage(manifest, place);
  return manifest;
}

}  // namespace

Manifest manifest_of_text(const std::string& text, const std::string& place) {
  check_json_limits(text, place);
  return manifest_of_json(checked_manifest_json(text, place), place);
}

Manifest read_manifest(const std::filesystem::path& directory) {
  const auto path = directory / manifest_name;
  JsonLimits bounds(path.string());
  const std::string text =
      read_text_file(path, max_manifest_bytes, [&](std::string_view block) { bounds.add(block); });
  return manifest_of_json(checked_manifest_json(text, path.string()), path.string());
}

std::vector<std::vector<FilePiece>> pieces_by_file(const Manifest& manifest) {
  std::vector<std::vector<FilePiece>> result(manifest.files.size());
  for (const auto& [name, tensor] : manifest.tensors)
    for (const ManifestPiece& piece : tensor.pieces)
      result[static_cast<std::size_t>(piece.file)].push_back({&piece, tensor.dtype});
  return result;
}

}  // namespace longspan
