// Reads untrusted HDF5 files.
#include <sys/stat.h>

#include <algorithm>

#include "checkpoints/hdf5.h"
#include "checkpoints/hdf5_calls.h"
#include "framework/core/quote.h"

namespace longspan::hdf5 {
namespace {

constexpr std::int64_t max_chunk_bytes = std::int64_t{64} << 20;
constexpr std::uint64_t min_chunk_bytes = std::uint64_t{64} << 10;  // for a large dataset
constexpr std::uint64_t max_small_chunks = 4096;

}  // namespace

Reader::Reader(const std::filesystem::path& path, int descriptor) : path_(path) {
  const Quiet quiet;
  const std::string place = path_.string();
  const Id access = access_properties<DataError>(place);
  file_ = opened<DataError>(
      H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose, place, "open the file");
  void* handle = nullptr;
  check<DataError>(
      H5Fget_vfd_handle(file_.get(), access.get(), &handle), place, "find the file's descriptor");
  struct stat checked {
  }, found{};
  if (fstat(descriptor, &checked) != 0 || fstat(*static_cast<int*>(handle), &found) != 0 ||
      checked.st_ino != found.st_ino || checked.st_dev != found.st_dev)
    throw DataError("{}: replaced while reading", place);
}

namespace {

// Checks each component of the path, because soft and external links could leave the verified file.
void require_hard_links(hid_t file, const std::string& name, const std::string& place) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end + 1);
    const std::string prefix = name.substr(0, end);
    H5L_info_t link{};
    check<DataError>(H5Lget_info(file, prefix.c_str(), &link, H5P_DEFAULT), place, "find the link");
    if (link.type != H5L_TYPE_HARD)
      throw DataError("{}: expected a dataset of this file, found a soft or external link \"{}\"",
                      place,
                      prefix);
  }
}

// Returns the chunk shape of a dataset that has the layout of rank files.
Shape checked_layout(const Id& dataset, DType dtype, const Shape& shape, const std::string& place) {
  const Id layout =
      opened<DataError>(H5Dget_create_plist(dataset.get()), H5Pclose, place, "read the layout");
  const H5D_layout_t kind = H5Pget_layout(layout.get());
  if (kind != H5D_CHUNKED)
    throw DataError("{}: expected a chunked layout, found {}",
                    place,
                    kind == H5D_VIRTUAL      ? "virtual"
                    : kind == H5D_CONTIGUOUS ? "contiguous or external"
                    : kind == H5D_COMPACT    ? "compact"
                                             : "unknown");
  if (H5Pget_external_count(layout.get()) != 0)
    throw DataError("{}: external storage is not allowed", place);
  unsigned flags = 0, configuration = 0;
  std::size_t values = 0;
  if (H5Pget_nfilters(layout.get()) != 1 ||
      H5Pget_filter2(layout.get(), 0, &flags, &values, nullptr, 0, nullptr, &configuration) !=
          H5Z_FILTER_FLETCHER32)
    throw DataError("{}: expected Fletcher32 as the only filter", place);
  Extents chunk{};
  if (H5Pget_chunk(layout.get(), Shape::max_dimensions, chunk.data()) != shape.dimensions())
    throw DataError("{}: number of dimensions differs between chunks and dataset", place);
  Shape result = shape;
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  for (int axis = 0; axis < shape.dimensions(); ++axis) {
    const hsize_t extent = chunk[static_cast<std::size_t>(axis)];
    if (extent < 1 || extent > static_cast<hsize_t>(shape[axis]) ||
        extent > static_cast<hsize_t>(max_chunk_bytes / bytes))
      throw DataError("{}: chunks exceed the dataset or 64 MiB", place);
    bytes *= static_cast<std::int64_t>(extent);
    result = result.with(axis, static_cast<std::int64_t>(extent));
  }
  // Chunks must be contiguous in element order.
  bool begun = false;
  for (int axis = 0; axis < shape.dimensions(); ++axis) {
    if (begun && result[axis] != shape[axis])
      throw DataError("{}: chunks are not contiguous ranges", place);
    begun = begun || result[axis] > 1;
  }
  return result;
}

// Distinguishes bf16 from f16, whose storage type is equal.
void check_dtype_attribute(const Id& dataset, DType dtype, const std::string& place) {
  const Id attribute = opened<DataError>(H5Aopen(dataset.get(), dtype_attribute, H5P_DEFAULT),
                                         H5Aclose,
                                         place,
                                         "open the dtype attribute");
  const Id type =
      opened<DataError>(H5Aget_type(attribute.get()), H5Tclose, place, "read the dtype attribute");
  const Id space =
      opened<DataError>(H5Aget_space(attribute.get()), H5Sclose, place, "read the dtype attribute");
  std::string found(name_of(dtype).size(), '\0');
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      H5Tget_size(type.get()) != found.size() ||
      H5Sget_simple_extent_type(space.get()) != H5S_SCALAR ||
      H5Aread(attribute.get(), type.get(), found.data()) < 0 || found != name_of(dtype))
    throw DataError("{}: expected the dtype attribute \"{}\"", place, name_of(dtype));
}

void check_shape(const Id& dataset, const Shape& shape, const std::string& place) {
  const Id space =
      opened<DataError>(H5Dget_space(dataset.get()), H5Sclose, place, "read the shape");
  const int dimensions = H5Sget_simple_extent_ndims(space.get());
  Extents found{}, most{};
  if (dimensions != shape.dimensions() ||
      H5Sget_simple_extent_dims(space.get(), found.data(), most.data()) != dimensions ||
      found != extents_of(shape) || most != found)
    throw DataError("{}: expected shape {}, as in the manifest", place, shape.to_string());
}

// An unwritten chunk takes no bytes, so that a small file may declare terabytes.
void check_stored(const Id& dataset,
                  DType dtype,
                  const Shape& shape,
                  const Shape& chunk,
                  const std::string& place) {
  std::uint64_t chunks = 1;
  for (int axis = 0; axis < shape.dimensions(); ++axis)
    chunks *= static_cast<std::uint64_t>((shape[axis] + chunk[axis] - 1) / chunk[axis]);
  // HDF5 visits each chunk, and a few bytes may declare an excessive number of them.
  const auto elements = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
  if (chunks > max_small_chunks + elements / min_chunk_bytes)
    throw DataError("{}: expected chunks of at least 64 KiB, found {} chunks in {} bytes",
                    place,
                    chunks,
                    elements);
  const std::uint64_t bytes =
      chunks *
      (static_cast<std::uint64_t>(chunk.elements()) * size_of(dtype) + sizeof(std::uint32_t));
  if (const std::uint64_t found = H5Dget_storage_size(dataset.get()); found != bytes)
    throw DataError("{}: expected {} stored bytes, found {}", place, bytes, found);
}

}  // namespace

Dataset Reader::open(const std::string& name, DType dtype, const Shape& shape) const {
  const Quiet quiet;
  std::string place = fmt::format("{}: tensor \"{}\"", path_.string(), name);
  require_hard_links(file_.get(), name, place);
  Id dataset = opened<DataError>(
      H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, place, "open the dataset");
  const Id type =
      opened<DataError>(H5Dget_type(dataset.get()), H5Tclose, place, "read the element type");
  if (H5Tequal(type.get(), stored_type(dtype)) <= 0)
    throw DataError("{}: expected the storage type of {}", place, name_of(dtype));
  check_dtype_attribute(dataset, dtype, place);
  check_shape(dataset, shape, place);
  const Shape chunk = checked_layout(dataset, dtype, shape, place);
  check_stored(dataset, dtype, shape, chunk, place);
  return {std::move(dataset), std::move(place), dtype, chunk};
}

void Reader::require_virtual(const std::string& name, std::size_t parts) const {
  const Quiet quiet;
  const std::string place = fmt::format("{}: tensor \"{}\"", path_.string(), name);
  const Id dataset = opened<DataError>(
      H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, place, "open the dataset");
  const Id layout =
      opened<DataError>(H5Dget_create_plist(dataset.get()), H5Pclose, place, "read the layout");
  std::size_t found = 0;
  if (H5Pget_virtual_count(layout.get(), &found) < 0 || found != parts)
    throw DataError("{}: expected {} parts in the view, found {}", place, parts, found);
}

namespace {

// Collects unexpected content of one group of a rank file.
struct FolderVisit {
  static constexpr std::size_t max_unexpected = 20;

  const std::set<std::string>& datasets;  // expected full names
  const std::set<std::string>& folders;   // their groups
  std::string prefix;                     // of the names in this group
  std::set<std::string> entered;          // valid groups
  std::vector<std::string> unexpected;

  // Returns why a link is unexpected, in a few words, or "".
  std::string problem(hid_t folder, const char* name, const H5L_info_t& link) {
    if (link.type != H5L_TYPE_HARD) return "is a soft or external link";
    H5O_info_t object{};
    if (H5Oget_info_by_name2(folder, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      return "cannot be read";
    const std::string whole = prefix + name;
    const bool is_folder = object.type == H5O_TYPE_GROUP && folders.contains(whole);
    const bool is_dataset = object.type == H5O_TYPE_DATASET && datasets.contains(whole);
    if (!is_folder && !is_dataset) return "is not in the manifest";
    if (object.rc != 1) return "has several names";
    if (is_folder) entered.insert(whole);
    return {};
  }
};

herr_t visit_link(hid_t folder, const char* name, const H5L_info_t* link, void* data) {
  auto& visit = *static_cast<FolderVisit*>(data);
  const std::string problem = visit.problem(folder, name, *link);
  if (!problem.empty())
    visit.unexpected.push_back(fmt::format("{} {}", quote(visit.prefix + name), problem));
  return visit.unexpected.size() < FolderVisit::max_unexpected ? 0 : 1;
}

// Returns the groups of the names, parents before children. The root is "".
std::set<std::string> folders_of(const std::set<std::string>& names) {
  std::set<std::string> folders = {""};
  for (const std::string& name : names)
    for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1))
      folders.insert(name.substr(0, end));
  return folders;
}

}  // namespace

std::vector<std::string> Reader::unexpected(const std::set<std::string>& wanted) const {
  const Quiet quiet;
  const std::string place = path_.string();
  const std::set<std::string> folders = folders_of(wanted);
  FolderVisit visit{wanted, folders, "", {""}, {}};
  for (const std::string& name : folders) {
    // Opening its datasets reports a missing group.
    if (!visit.entered.contains(name)) continue;
    const Id folder =
        opened<DataError>(H5Gopen2(file_.get(), name.empty() ? "/" : name.c_str(), H5P_DEFAULT),
                          H5Gclose,
                          place,
                          "open a group");
    visit.prefix = name.empty() ? "" : name + "/";
    check<DataError>(
        H5Literate(folder.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit_link, &visit),
        place,
        "list the file");
    if (visit.unexpected.size() >= FolderVisit::max_unexpected) break;
  }
  std::ranges::sort(visit.unexpected);
  for (std::string& sentence : visit.unexpected) sentence = fmt::format("{}: {}", place, sentence);
  return std::move(visit.unexpected);
}

}  // namespace longspan::hdf5
