#include "framework/kernels/attention/key_weights.h"

namespace longspan {

void check(const KeyPaddingMask& hidden) {
  const Shape& shape = hidden.log_weight.shape();
  const DType dtype = hidden.log_weight.dtype();
  require(shape.dimensions() == 3 && (dtype == DType::f32 || dtype == DType::f64) &&
              total_count(hidden.positions) == shape[1] &&
              std::ssize(hidden.positions) <= max_key_ranges,
          "hide_keys: weights {} {} do not match {} positions in {} ranges",
          name_of(dtype),
          shape,
          total_count(hidden.positions),
          hidden.positions.size());
  require(!hidden.padding.defined() ||
              (hidden.padding.dtype() == DType::u8 && hidden.padding.shape().dimensions() == 2 &&
               hidden.padding.shape()[0] == shape[0]),
          "hide_keys: expected padding u8 [batch, positions], found {}",
          hidden.padding.shape().to_string());
  const Shape batch = {shape[0]};
  require(!hidden.length.defined() ||
              (hidden.length.dtype() == DType::i64 && hidden.length.shape() == batch),
          "hide_keys: expected lengths i64 [batch], found {}",
          hidden.length.shape().to_string());
}

void check(const ShiftedKeys& keys) {
  const Shape& shape = keys.shift.shape();
  const DType dtype = keys.shift.dtype();
  require(shape.dimensions() == 3 && (dtype == DType::f32 || dtype == DType::f64) &&
              std::ssize(keys.parts) <= max_key_ranges,
          "weigh_shifted: invalid shifts {} {} in {} parts",
          name_of(dtype),
          shape,
          keys.parts.size());
  const Shape tops = {keys.causal ? std::ssize(keys.parts) : 1, shape[0], shape[2]};
  require(!keys.before.defined() || (keys.before.shape() == tops && keys.before.dtype() == dtype),
          "weigh_shifted: expected before {}, found {}",
          tops,
          keys.before.shape().to_string());
  for (const Tensor& written : {keys.log_weight, keys.decay})
    require(!written.defined() || (written.shape() == shape && written.dtype() == dtype),
            "weigh_shifted: weights {} {} do not match shifts {} {}",
            name_of(written.dtype()),
            written.shape(),
            name_of(dtype),
            shape);
}

}  // namespace longspan
