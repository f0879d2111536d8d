#include "framework/core/tensor.h"

#include <cstring>

#include "framework/core/gpu.h"

namespace longspan {

struct Tensor::Storage {
  Storage(const Device& where, std::size_t bytes, MemoryTag tag)
      : device(where), block(device.allocator(), bytes, tag) {}

  Device device;
  ScopedAllocation block;
};

Tensor Tensor::empty(const Shape& shape, DType dtype, const Device& device, MemoryTag tag) {
  Tensor result;
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.elements_ = shape.elements();
  result.storage_ = std::make_shared<Storage>(device, result.byte_size(), tag);
  result.data_ = result.storage_->block.begin();
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
          "rows [{}, {}) are out of range for shape {}",
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
  Tensor copy = empty_like(tag);
  copy.copy_from(*this);
  return copy;
}

void Tensor::copy_from(const Tensor& source) const {
  require(source.dtype_ == dtype_ && source.elements_ == elements_,
          "cannot copy shape {} of {} into shape {} of {}",
          source.shape_,
          name_of(source.dtype_),
          shape_,
          name_of(dtype_));
  if (elements_ == 0 || data_ == source.data_) return;
  const bool here = device().state().in_gpu_memory();
  const bool there = source.device().state().in_gpu_memory();
  if (!here && !there) {
    dispatch_on_host(device(), [&] { std::memmove(data_, source.data_, byte_size()); });
    return;
  }
  const bool apart = device() != source.device();
  if (apart && here && there)
    source.device().synchronize();  // the copy is queued on another stream
  const Cuda cuda = (here ? device() : source.device()).state().cuda();
  gpu::copy(data_, source.data_, byte_size(), cuda.stream);
  // The host may read or write its side as soon as this returns.
  if (apart) cuda.state->wait();
}

void Tensor::copy_from_host(const void* elements) const {
  if (!device().state().in_gpu_memory()) {
    std::memcpy(data_, elements, byte_size());
    return;
  }
  const Cuda cuda = device().state().cuda();
  gpu::copy(data_, elements, byte_size(), cuda.stream);
  cuda.state->wait();
}

void Tensor::zero() const {
  if (elements_ == 0) return;
  if (DeviceState& state = device().state(); state.in_gpu_memory())
    return gpu::zero(data_, byte_size(), state.cuda().stream);
  dispatch_on_host(device(), [&] { std::memset(data_, 0, byte_size()); });
}

Tensor Tensor::to(const Device& where, MemoryTag tag) const {
  if (where == device()) return *this;
  Tensor copy = empty(shape_, dtype_, where, tag);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::scalar(double value, DType dtype, const Device& device, MemoryTag tag) {
  return with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
    const T element = T(static_cast<Accumulator<T>>(value));
    return from<T>(std::span(&element, 1), {1}, device, tag);
  });
}

double Tensor::item() const {
  require(elements_ == 1, "item() requires a one-element tensor, got shape {}", shape_);
  const Tensor here = to_host();
  return with_floating_type(dtype_, [&]<typename T>(TypeTag<T>) {
    return static_cast<double>(static_cast<Accumulator<T>>(*here.data<T>()));
  });
}

}  // namespace longspan
