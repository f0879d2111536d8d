// A dense, row-major block of elements on a device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/core/shape.h"

namespace longspan {

// A handle: copies share the elements. Views are created only by `reshape` and by slicing the
// leading axis, so a tensor is always contiguous. A default-constructed tensor is undefined: it has
// no elements and no device.
class Tensor {
 public:
  Tensor() = default;

  // Elements are uninitialized.
  static Tensor empty(const Shape& shape,
                      DType dtype,
                      const Device& device,
                      MemoryTag tag = MemoryTag::activations);
  static Tensor zeros(const Shape& shape,
                      DType dtype,
                      const Device& device,
                      MemoryTag tag = MemoryTag::activations);
  // Copies host values into a new tensor.
  template <typename T>
  static Tensor from(std::span<const T> values,
                     const Shape& shape,
                     const Device& device,
                     MemoryTag tag = MemoryTag::activations) {
    require(static_cast<std::int64_t>(values.size()) == shape.elements(),
            "{} values do not fill shape {}",
            values.size(),
            shape.to_string());
    Tensor result = empty(shape, DTypeOf<T>::value, device, tag);
    if (!values.empty()) result.copy_from_host(values.data());
    return result;
  }
  // Returns a tensor with one element.
  static Tensor scalar(double value,
                       DType dtype,
                       const Device& device,
                       MemoryTag tag = MemoryTag::workspace);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const Device& device() const;
  std::int64_t elements() const { return elements_; }
  std::size_t byte_size() const { return static_cast<std::size_t>(elements_) * size_of(dtype_); }

  // Returns the elements. Throws Failure when T does not match the dtype. Elements on a GPU are
  // readable only by kernels.
  template <typename T>
  T* data() const {
    require(defined() && DTypeOf<T>::value == dtype_,
            "a tensor of {} cannot be read as {}",
            defined() ? name_of(dtype_) : "nothing",
            name_of(DTypeOf<T>::value));
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(elements_)};
  }
  std::byte* bytes() const { return data_; }

  // Returns a view with another shape and an equal number of elements.
  Tensor reshape(const Shape& shape) const;
  // Returns rows [begin, end) of the leading axis, as a view.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  // Returns whether exactly `handles` handles and views share the elements.
  bool has_use_count(long handles) const { return storage_.use_count() == handles; }
  // Returns whether no other handle or view shares the elements.
  bool is_unique() const { return has_use_count(1); }

  // Returns an uninitialized tensor of equal shape, dtype and device.
  Tensor empty_like(MemoryTag tag = MemoryTag::activations) const {
    return empty(shape_, dtype_, device(), tag);
  }
  Tensor clone(MemoryTag tag = MemoryTag::activations) const;
  // Copies from a tensor on any device. Requires equal dtype and number of elements.
  void copy_from(const Tensor& source) const;
  void zero() const;
  // Returns a copy on another device, or the tensor itself where it is already there.
  Tensor to(const Device& device, MemoryTag tag = MemoryTag::workspace) const;
  // Returns the tensor in host-readable memory.
  Tensor to_host() const { return to(device().host()); }
  // Returns the value of a one-element tensor of a floating dtype, copied to the host.
  double item() const;

 private:
  struct Storage;

  void copy_from_host(const void* elements) const;

  std::shared_ptr<Storage> storage_;
  std::byte* data_ = nullptr;
  std::int64_t elements_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

}  // namespace longspan
