#include "tests/golden/golden_file.h"

#include <hdf5.h>

#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

const std::set<std::string> descriptions = {"seed",
                                            "reference",
                                            "equation",
                                            "notes",
                                            "loss",
                                            "check_numpy_error",
                                            "check_gradient_fd_error"};

// Owns one HDF5 identifier.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw DataError("{}: cannot be opened", what);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close_(id_); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

void check(bool good, const std::string& what) {
  if (!good) throw DataError("{}: cannot be read", what);
}

std::vector<std::int64_t> extents_of(hid_t space, const std::string& what) {
  const int rank = H5Sget_simple_extent_ndims(space);
  check(rank >= 0, what);
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space, extents.data(), nullptr) == rank, what);
  return {extents.begin(), extents.end()};
}

std::size_t elements_of(const std::vector<std::int64_t>& extents) {
  std::size_t count = 1;
  for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
  return count;
}

template <typename T>
std::vector<T> attribute_values(hid_t attribute,
                                hid_t type,
                                std::size_t count,
                                const std::string& what) {
  std::vector<T> values(count);
  check(H5Aread(attribute, type, values.data()) >= 0, what);
  return values;
}

Tensor read_dataset(hid_t file, const std::string& name, const std::string& what) {
  const Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, what);
  const Handle space(H5Dget_space(dataset), H5Sclose, what);
  const Handle type(H5Dget_type(dataset), H5Tclose, what);
  const std::vector<std::int64_t> extents = extents_of(space, what);
  const bool whole = H5Tget_class(type) == H5T_INTEGER;
  check(whole || H5Tget_class(type) == H5T_FLOAT, what);
  const Tensor result = Tensor::empty(Shape(std::span<const std::int64_t>(extents)),
                                      whole ? DType::i64 : DType::f64,
                                      testing::backend_device());
  const hid_t memory_type = whole ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
  if (result.elements() > 0)
    check(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.bytes()) >= 0, what);
  return result;
}

std::vector<std::string> names_in(hid_t file, const std::string& group, const std::string& what) {
  const Handle handle(H5Gopen2(file, group.c_str(), H5P_DEFAULT), H5Gclose, what);
  H5G_info_t info;
  check(H5Gget_info(handle, &info) >= 0, what);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char buffer[256];
    const auto length = H5Lget_name_by_idx(
        handle, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, sizeof(buffer), H5P_DEFAULT);
    check(length > 0 && length < static_cast<ssize_t>(sizeof(buffer)), what);
    names.emplace_back(buffer);
  }
  return names;
}

}  // namespace

GoldenFile::GoldenFile(const std::filesystem::path& path) : name_(path.stem().string()) {
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path.string());
  const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose, name_);
  const int attributes = H5Aget_num_attrs(root);
  check(attributes >= 0, name_);
  for (hsize_t i = 0; i < static_cast<hsize_t>(attributes); ++i) {
    const Handle handle(
        H5Aopen_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose,
        name_);
    char name[256];
    check(H5Aget_name(handle, sizeof(name), name) > 0, name_);
    const std::string what = name_ + ": attribute " + name;
    const Handle type(H5Aget_type(handle), H5Tclose, what);
    const Handle space(H5Aget_space(handle), H5Sclose, what);
    const std::size_t count = elements_of(extents_of(space, what));
    switch (H5Tget_class(type)) {
      case H5T_INTEGER:
        attributes_[name] = attribute_values<std::int64_t>(handle, H5T_NATIVE_INT64, count, what);
        break;
      case H5T_FLOAT:
        attributes_[name] = attribute_values<double>(handle, H5T_NATIVE_DOUBLE, count, what);
        break;
      case H5T_STRING: {
        check(H5Tis_variable_str(type) == 0 && count == 1, what);
        const auto letters = attribute_values<char>(handle, type, H5Tget_size(type), what);
        const std::string padded(letters.begin(), letters.end());
        attributes_[name] = padded.substr(0, padded.find('\0'));
        break;
      }
      default:
        throw DataError("{} is neither a number nor text", what);
    }
  }
  for (const std::string& group : names_in(file, "/", name_))
    for (const std::string& dataset : names_in(file, group, name_ + ": " + group)) {
      const std::string full = group + "/" + dataset;
      datasets_[full] = read_dataset(file, full, name_ + ": " + full);
    }
}

const GoldenFile::Attribute& GoldenFile::attribute(const std::string& name) const {
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) throw DataError("{}: there is no attribute {}", name_, name);
  used_.insert(name);
  return found->second;
}

std::vector<std::int64_t> GoldenFile::integers(const std::string& name) const {
  const auto* const values = std::get_if<std::vector<std::int64_t>>(&attribute(name));
  if (values == nullptr) throw DataError("{}: attribute {} is not whole numbers", name_, name);
  return *values;
}

std::int64_t GoldenFile::integer(const std::string& name) const {
  const std::vector<std::int64_t> values = integers(name);
  if (values.size() != 1) throw DataError("{}: attribute {} is not one number", name_, name);
  return values.front();
}

double GoldenFile::real(const std::string& name) const {
  const auto* const values = std::get_if<std::vector<double>>(&attribute(name));
  if (values == nullptr) return static_cast<double>(integer(name));
  if (values->size() != 1) throw DataError("{}: attribute {} is not one number", name_, name);
  return values->front();
}

const std::string& GoldenFile::text(const std::string& name) const {
  const auto* const value = std::get_if<std::string>(&attribute(name));
  if (value == nullptr) throw DataError("{}: attribute {} is not text", name_, name);
  return *value;
}

bool GoldenFile::flag(const std::string& name) const {
  const std::int64_t value = integer(name);
  if (value != 0 && value != 1)
    throw DataError("{}: attribute {} is {}, wanted 0 or 1", name_, name, value);
  return value == 1;
}

const Tensor& GoldenFile::dataset(const std::string& name, DType dtype) const {
  const auto found = datasets_.find(name);
  if (found == datasets_.end()) throw DataError("{}: there is no dataset {}", name_, name);
  if (found->second.dtype() != dtype)
    throw DataError(
        "{}: {} holds {}, wanted {}", name_, name, name_of(found->second.dtype()), name_of(dtype));
  used_.insert(name);
  return found->second;
}

const Tensor& GoldenFile::numbers(const std::string& name) const {
  return dataset(name, DType::f64);
}

const Tensor& GoldenFile::ids(const std::string& name) const { return dataset(name, DType::i64); }

std::vector<std::string> GoldenFile::unused() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : attributes_)
    if (!used_.contains(name) && !descriptions.contains(name)) result.push_back(name);
  for (const auto& [name, value] : datasets_)
    if (!used_.contains(name)) result.push_back(name);
  return result;
}

}  // namespace longspan::golden
