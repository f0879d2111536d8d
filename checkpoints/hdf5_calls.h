// How the files that call HDF5 do it: quietly, each return checked.
#pragma once

#include <hdf5.h>

#include <array>
#include <span>
#include <string>

#include "checkpoints/hdf5.h"
#include "framework/core/error.h"

namespace longspan::hdf5 {

inline constexpr const char* dtype_attribute = "dtype";

// While it lives, HDF5 prints nothing on this thread. Before the first call it is told to do
// nothing at the end of the process: every file is closed here, and one that could not be (the disk
// is full) would be written to once more.
class Quiet {
 public:
  Quiet() {
    [[maybe_unused]] static const herr_t without_exit_routine = H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// What the innermost entry of HDF5's error stack says: the system's own message where it has one.
std::string reason();

// The identifier, or an error of class E that says where, what was tried and why it failed.
template <typename E>
Id opened(hid_t id, Id::Closer closer, const std::string& place, const char* action) {
  if (id < 0) throw E("{}: cannot {}: {}", place, action, reason());
  return Id(id, closer);
}
template <typename E>
void check(herr_t status, const std::string& place, const char* action) {
  if (status < 0) throw E("{}: cannot {}: {}", place, action, reason());
}

// bf16 and f16 are kept as the 16 bits they are.
hid_t stored_type(DType dtype);

using Extents = std::array<hsize_t, Shape::max_dimensions>;
Extents extents_of(std::span<const std::int64_t> values);
inline Extents extents_of(const Shape& shape) { return extents_of(shape.extents()); }

template <typename E>
Id access_properties(const std::string& place) {
  Id properties = opened<E>(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, place, "set up access");
  check<E>(H5Pset_fapl_sec2(properties.get()), place, "choose the file driver");
  check<E>(H5Pset_libver_bounds(properties.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST),
           place,
           "choose the format");
  // A rank file has one writer and then never changes; some parallel file systems refuse locks.
  check<E>(H5Pset_file_locking(properties.get(), false, true), place, "choose the locking");
  return properties;
}

}  // namespace longspan::hdf5
