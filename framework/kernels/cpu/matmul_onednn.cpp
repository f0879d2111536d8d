#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "framework/kernels/cpu/matmul_backends.h"

namespace longspan {
namespace {

// For fewer operations, starting and joining threads takes about as long as the product on one
// thread.
constexpr double serial_flops = 1 << 20;

// Sets the number of threads for a product of `flops` operations during its lifetime.
class ProductThreads {
 public:
  explicit ProductThreads(double flops) {
    if (flops < serial_flops) omp_set_num_threads(1);
  }
  ProductThreads(const ProductThreads&) = delete;
  ProductThreads& operator=(const ProductThreads&) = delete;
  ~ProductThreads() { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
};

// Cache key of a primitive.
struct Key {
  std::int64_t m, k, n;
  bool transpose_a, transpose_b, accumulate, bias;
  DType dtype, result, bias_dtype;

  friend auto operator<=>(const Key&, const Key&) = default;
};

Key key_of(const Matmul& matmul, const MatmulExtents& extents) {
  return {extents.m,
          extents.k,
          extents.n,
          matmul.transpose_a,
          matmul.transpose_b,
          matmul.accumulate,
          matmul.bias.defined(),
          matmul.a.dtype(),
          matmul.c.dtype(),
          matmul.bias.defined() ? matmul.bias.dtype() : DType::f32};
}

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {{rows, columns}, type_of(dtype), strides};
}

dnnl::primitive_attr attributes_of(const Key& key) {
  dnnl::post_ops after;
  if (key.accumulate) after.append_sum(1.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  // Scratch comes from the device's allocator, which counts it.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::matmul::primitive_desc description_of(const Key& key, const dnnl::engine& engine) {
  const dnnl::memory::desc a = matrix(key.m, key.k, key.dtype, key.transpose_a);
  const dnnl::memory::desc b = matrix(key.k, key.n, key.dtype, key.transpose_b);
  const dnnl::memory::desc c = matrix(key.m, key.n, key.result, false);
  return {key.bias ? dnnl::matmul::desc(a, b, matrix(1, key.n, key.bias_dtype, false), c)
                   : dnnl::matmul::desc(a, b, c),
          attributes_of(key),
          engine};
}

struct Product {
  Product(const Key& key, const dnnl::engine& engine)
      : description(description_of(key, engine)), primitive(description) {}

  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

// A device's primitives, one for each shape.
class Products {
 public:
  std::shared_ptr<const Product> get(const Key& key) {
    const std::lock_guard lock(mutex_);
    // Limits memory if shapes never repeat.
    if (products_.size() > most) products_.clear();
    auto& product = products_[key];
    if (!product) product = std::make_shared<const Product>(key, engine_);
    return product;
  }
  // Does not compile the primitive, which takes far longer.
  std::int64_t scratch_bytes(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = scratch_.try_emplace(key, 0);
    if (is_new)
      found->second =
          static_cast<std::int64_t>(description_of(key, engine_).scratchpad_desc().get_size());
    return found->second;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  static constexpr std::size_t most = 4096;

  std::mutex mutex_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::map<Key, std::shared_ptr<const Product>> products_;
  std::map<Key, std::int64_t> scratch_;  // of products without a primitive
};

Tensor scratch_of(const Matmul& matmul, std::int64_t bytes) {
  return Tensor::empty({bytes}, DType::u8, matmul.c.device(), MemoryTag::workspace);
}

// f32 products that oneDNN's sgemm computes faster than its matmul primitive: b not transposed and
// no bias. It mainly applies to accumulated weight gradients x^T dy (up to 10% faster at 512 x 2048
// x 512; with b transposed it is as much slower).
bool is_for_sgemm(const Matmul& matmul) {
  return matmul.a.dtype() == DType::f32 && !matmul.transpose_b && !matmul.bias.defined();
}

void multiply_by_sgemm(const Matmul& matmul, const MatmulExtents& extents) {
  const auto [m, k, n] = extents;
  const dnnl::status status = dnnl::sgemm(matmul.transpose_a ? 'T' : 'N',
                                          'N',
                                          m,
                                          n,
                                          k,
                                          1.0f,
                                          matmul.a.data<float>(),
                                          matmul.transpose_a ? m : k,
                                          matmul.b.data<float>(),
                                          n,
                                          matmul.accumulate ? 1.0f : 0.0f,
                                          matmul.c.data<float>(),
                                          n);
  if (status != dnnl::status::success)
    throw dnnl::error(static_cast<dnnl_status_t>(status), "sgemm failed");
}

void multiply_by_primitive(Products& products, const Matmul& matmul, const MatmulExtents& extents) {
  const Key key = key_of(matmul, extents);
  const auto product = products.get(key);
  const auto& engine = products.engine();
  const auto& description = product->description;
  const dnnl::memory::desc scratch_layout = description.scratchpad_desc();
  const Tensor scratch = scratch_of(matmul, static_cast<std::int64_t>(scratch_layout.get_size()));
  const auto memory = [&](const dnnl::memory::desc& layout, const Tensor& tensor) {
    return dnnl::memory(layout, engine, tensor.bytes());
  };
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, memory(description.src_desc(), matmul.a)},
      {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), matmul.b)},
      {DNNL_ARG_DST, memory(description.dst_desc(), matmul.c)},
      {DNNL_ARG_SCRATCHPAD, memory(scratch_layout, scratch)}};
  if (key.bias) arguments.emplace(DNNL_ARG_BIAS, memory(description.bias_desc(), matmul.bias));
  dnnl::stream stream(engine);
  product->primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace

bool bf16_is_native() {
  const auto found = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (found & wanted) == wanted;
}

void matmul_onednn(Cpu cpu, const Matmul& matmul, const MatmulExtents& extents) {
  const ProductThreads threads(extents.flops());
  try {
    auto& products = cpu.state->get_or_create<Products>();
    if (is_for_sgemm(matmul)) {
      if (!cpu.state->is_meta()) multiply_by_sgemm(matmul, extents);
    } else if (cpu.state->is_meta()) {
      scratch_of(matmul, products.scratch_bytes(key_of(matmul, extents)));
    } else {
      multiply_by_primitive(products, matmul, extents);
    }
  } catch (const dnnl::error& error) {
    throw Failure("matmul: oneDNN failed for [{}, {}] x [{}, {}] in {}: {}",
                  extents.m,
                  extents.k,
                  extents.k,
                  extents.n,
                  name_of(matmul.a.dtype()),
                  error.what());
  }
}

}  // namespace longspan
