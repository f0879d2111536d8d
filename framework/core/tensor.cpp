#include "framework/core/tensor.h"

namespace longspan {

struct Tensor::Storage {
  Storage(const Device& where, std::size_t size, MemoryTag use)
      : device(where), bytes(size), tag(use), block(device.allocator().allocate(size, use)) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() { device.allocator().free(block, bytes, tag); }

  Device device;
  std::size_t bytes;
  MemoryTag tag;
  void* block;
};

Tensor Tensor::empty(const Shape& shape, DType dtype, const Device& device, MemoryTag tag) {
  Tensor result;
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.elements_ = shape.elements();
  result.storage_ = std::make_shared<Storage>(device, result.byte_size(), tag);
  result.data_ = static_cast<std::byte*>(result.storage_->block);
  return result;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, const Device& device, MemoryTag tag) {
  Tensor result = empty(shape, dtype, device, tag);
  result.zero();
  return result;
}

const Device& Tensor::device() const {
  require(defined(), "an undefined tensor has no device");
  return storage_->device;
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(shape.elements() == elements_, "shape {} cannot be reshaped to {}", shape_, shape);
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  require(shape_.dimensions() > 0 && 0 <= begin && begin <= end && end <= shape_[0],
          "rows [{}, {}) do not lie in shape {}",
          begin,
          end,
          shape_);
  Tensor view = *this;
  const std::int64_t row = shape_[0] == 0 ? 0 : elements_ / shape_[0];
  view.shape_ = shape_.with(0, end - begin);
  view.elements_ = row * (end - begin);
  view.data_ = data_ + static_cast<std::size_t>(row * begin) * size_of(dtype_);
  return view;
}

Tensor Tensor::clone(MemoryTag tag) const {
  Tensor copy = like(tag);
  copy.copy_from(*this);
  return copy;
}

void Tensor::copy_from(const Tensor& source) const {
  require(source.dtype_ == dtype_ && source.elements_ == elements_,
          "a tensor {} of {} cannot be copied into {} of {}",
          source.shape_,
          name_of(source.dtype_),
          shape_,
          name_of(dtype_));
  if (elements_ == 0 || data_ == source.data_) return;
  on(device(), [&](Cpu) { std::memmove(data_, source.data_, byte_size()); });
}

void Tensor::zero() const {
  if (elements_ > 0) on(device(), [&](Cpu) { std::memset(data_, 0, byte_size()); });
}

}  // namespace longspan
