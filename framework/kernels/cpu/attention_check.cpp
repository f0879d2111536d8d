#include "framework/kernels/cpu/attention_check.h"

#include "framework/kernels/cpu/attention_plan.h"

namespace longspan {
namespace tile_attention {
namespace {

void expect(const Tensor& tensor, std::string_view name, const Shape& shape, DType dtype) {
  require(tensor.defined(), "attention: {} is not given", name);
  require(tensor.shape() == shape && tensor.dtype() == dtype,
          "attention: {} is {} {}, wanted {} {}",
          name,
          name_of(tensor.dtype()),
          tensor.shape().to_string(),
          name_of(dtype),
          shape.to_string());
}

void expect_bias(const Tensor& tensor, std::string_view name, const Shape& shape, DType dtype) {
  require(tensor.defined(), "attention: {} is not given", name);
  expect(tensor, name, shape, tensor.dtype() == accumulator_of(dtype) ? tensor.dtype() : dtype);
}

}  // namespace

void check(const Attention& a) {
  require(a.query.defined() && a.key.defined() && a.value.defined(),
          "attention: query, key and value are needed");
  require(a.query.shape().dimensions() == 4 && a.key.shape().dimensions() == 4 &&
              a.value.shape().dimensions() == 4,
          "attention: query {}, key {} and value {} must be [batch, time, heads, dim]",
          a.query.shape().to_string(),
          a.key.shape().to_string(),
          a.value.shape().to_string());
  const DType dtype = a.query.dtype();
  const Shape& q = a.query.shape();
  const std::int64_t keys = a.key.shape()[1];
  const std::int64_t value_dim = a.value.shape()[3];
  require(q[3] > 0 && value_dim > 0, "attention: heads have no features");
  expect(a.key, "key", {q[0], keys, q[2], q[3]}, dtype);
  expect(a.value, "value", {q[0], keys, q[2], value_dim}, dtype);
  expect(a.out, "out", {q[0], q[1], q[2], value_dim}, dtype);
  expect(a.log_sum_exp, "log_sum_exp", {q[0], q[2], q[1]}, accumulator_of(dtype));
  const tile_attention::BandPlan plan(a);
  require(!a.mask.key_length.defined() && !a.mask.sorted && !a.shaw && !a.slopes.defined() &&
              !a.span && !a.hash && a.scale == 0,
          "attention: this term cannot be computed yet");
  if (a.mask.key_padding.defined())
    expect(a.mask.key_padding, "key_padding", {q[0], keys}, DType::u8);
  if (a.relative) {
    require(plan.causal, "attention: the relative term needs a causal mask");
    require(q[1] + plan.offset <= keys,
            "attention: the last of {} queries stands at {}, beyond {} keys and distances",
            q[1],
            q[1] - 1 + plan.offset,
            keys);
    expect(a.relative->position_key, "position_key", {keys, q[2], q[3]}, dtype);
    expect_bias(a.relative->content_bias, "content_bias", {q[2], q[3]}, dtype);
    expect_bias(a.relative->position_bias, "position_bias", {q[2], q[3]}, dtype);
  }
  if (a.dropout)
    require(a.dropout->rate >= 0 && a.dropout->rate < 1,
            "attention: the dropout rate is {}, wanted 0 or more and below 1",
            a.dropout->rate);
}

void check(const AttentionGradient& g) {
  const Attention& a = g.forward;
  check(a);
  const DType dtype = a.query.dtype();
  expect(g.dout, "dout", a.out.shape(), dtype);
  expect(g.dquery, "dquery", a.query.shape(), dtype);
  expect(g.dkey, "dkey", a.key.shape(), dtype);
  expect(g.dvalue, "dvalue", a.value.shape(), dtype);
  if (!a.relative) return;
  const DType sums = accumulator_of(dtype);
  expect(g.dposition_key, "dposition_key", a.relative->position_key.shape(), sums);
  expect(g.dcontent_bias, "dcontent_bias", a.relative->content_bias.shape(), sums);
  expect(g.dposition_bias, "dposition_bias", a.relative->position_bias.shape(), sums);
}

}  // namespace tile_attention

double attention_flops(const Attention& a) {
  const tile_attention::BandPlan plan(a);
  const std::int64_t batch = a.query.shape()[0];
  double pairs = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    if (b > 0 && !a.mask.key_padding.defined()) {
      pairs *= static_cast<double>(batch);
      break;
    }
    // Both ends of what a query sees only move forward: the keys in between are counted as they
    // enter and leave.
    const std::uint8_t* padding = a.mask.key_padding.defined()
                                      ? a.mask.key_padding.data<std::uint8_t>() + b * plan.keys
                                      : nullptr;
    const auto seen = [padding](std::int64_t key) {
      return padding == nullptr || padding[key] == 0;
    };
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < plan.time; ++i) {
      const auto keys = plan.keys_of(i);
      for (; end < keys.end; ++end) count += seen(end);
      for (; begin < keys.begin; ++begin) count -= seen(begin);
      pairs += static_cast<double>(count);
    }
  }
  const std::int64_t terms = a.relative ? 2 : 1;
  const auto features = static_cast<double>(terms * a.query.shape()[3] + a.value.shape()[3]);
  return 2 * features * pairs * static_cast<double>(a.query.shape()[2]);
}

}  // namespace longspan
