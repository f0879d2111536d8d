// Helpers to call HDF5 without its error output and with checked return values.
#pragma once

#include <hdf5.h>

#include <array>
#include <span>
#include <string>

#include "checkpoints/hdf5.h"
#include "framework/core/error.h"

namespace longspan::hdf5 {

inline constexpr const char* dtype_attribute = "dtype";

// Suppresses HDF5's error output on this thread. Also disables HDF5's exit handler before the first
// call. All files are closed here, and the handler would retry one that failed to close, for
// example on a full disk.
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

// Returns the innermost entry of HDF5's error stack: the system's message, if any.
std::string reason();

// Returns the identifier, or throws E with the place, the action and the reason.
template <typename E>
Id opened(hid_t id, Id::Closer closer, const std::string& place, const char* action) {
  if (id < 0) throw E("{}: cannot {}: {}", place, action, reason());
  return Id(id, closer);
}
template <typename E>
void check(herr_t status, const std::string& place, const char* action) {
  if (status < 0) throw E("{}: cannot {}: {}", place, action, reason());
}

// bf16 and f16 are stored as their 16 bits.
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
  // A rank file has one writer and is then immutable. Some parallel file systems reject locks.
  check<E>(H5Pset_file_locking(properties.get(), false, true), place, "choose the locking");
  return properties;
}

}  // namespace longspan::hdf5
