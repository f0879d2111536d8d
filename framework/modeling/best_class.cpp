#include "framework/modeling/best_class.h"

#include <algorithm>

namespace longspan {
namespace {

template <typename T>
void choose(const Tensor& scores, const Tensor& best) {
  const std::int64_t classes = scores.shape().width();
  const T* row = scores.data<T>();
  for (std::int64_t& id : best.span<std::int64_t>()) {
    id = std::max_element(row, row + classes) - row;
    row += classes;
  }
}

}  // namespace

Tensor argmax_classes(const Tensor& scores) {
  const Tensor here = scores.to_host();
  const Tensor best =
      Tensor::empty({scores.shape().rows()}, DType::i64, here.device(), MemoryTag::workspace);
  if (scores.dtype() == DType::f64)
    choose<double>(here, best);
  else
    choose<float>(here, best);
  return best;
}

}  // namespace longspan
