#include "framework/core/dtype.h"

#include "framework/core/quote.h"

namespace longspan {

DType parse_dtype(std::string_view name) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    if (name_of(dtype) == name) return dtype;
  throw DataError("unknown dtype {} (choices: f64, f32, bf16, f16, i64, i32, u8)", quote(name));
}

}  // namespace longspan
