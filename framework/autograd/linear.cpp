// Linear layers, and the two of a feed-forward layer.
#include "framework/autograd/dtypes.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/saved_tensor.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

void multiply(const Matmul& product) {
  dispatch_or_meta(product.a.device(), [&](auto backend) { matmul(backend, product); });
}

void require_width(const Variable& x, const Variable& weight) {
  require(x.shape().width() == weight.shape()[1],
          "expected {} input features, found {}",
          weight.shape()[1],
          x.shape().width());
}

Tensor product_like(const Variable& x, const Variable& weight) {
  return Tensor::empty(
      x.shape().with(-1, weight.shape()[0]), x.value().dtype(), x.value().device());
}

// Inputs `first` and first + 1 are the weight and the bias; x is the other factor.
void weight_gradients(BackwardContext& gradients,
                      std::size_t first,
                      const std::function<Tensor()>& x,
                      const Tensor& dy) {
  const Tensor dbias =
      gradients.needs_gradient(first + 1) ? gradients.accumulate_target(first + 1) : Tensor();
  if (gradients.needs_gradient(first)) {
    const GradientTarget dweight = gradients.target(first);
    multiply({.a = matrix(dy),
              .b = matrix(x()),
              .c = dweight.tensor,
              .transpose_a = true,
              .accumulate = dweight.add,
              .a_sums = dbias});
  } else if (dbias.defined()) {
    on(dy.device(), [&](auto backend) { add_column_sums(backend, matrix(dy), dbias); });
  }
}

// Sets the gradients of inputs `first` to first + 2: x, the weight and the bias.
void linear_gradients(BackwardContext& gradients,
                      const SavedTensor& x,
                      const Tensor& weight,
                      const Tensor& dy,
                      std::size_t first = 0) {
  weight_gradients(
      gradients, first + 1, [&] { return x.get(); }, dy);
  if (!gradients.needs_gradient(first)) return;
  const GradientTarget dx = gradients.target(first);
  multiply({.a = matrix(dy), .b = weight, .c = matrix(dx.tensor), .accumulate = dx.add});
}

SavedTensor save_input_for(const Variable& weight, const Variable& x) {
  return weight.requires_grad() ? save_for_backward(x) : SavedTensor();
}

Tensor product_of(const Variable& x, const Variable& weight, const Variable& bias) {
  Tensor y = product_like(x, weight);
  multiply({.a = matrix(x.value()),
            .b = weight.value(),
            .c = matrix(y),
            .transpose_b = true,
            .bias = bias.value()});
  return y;
}

void drop_in_place(const Hidden& hidden, const Tensor& x) {
  if (hidden.rate == 0) return;
  on(x.device(), [&](auto backend) {
    dropout(backend,
            {.x = x,
             .y = x,
             .rate = hidden.rate,
             .random = hidden.random,
             .placement = hidden.placement,
             .rows = hidden.rows});
  });
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  require_width(x, weight);
  return record(
      product_of(x, weight, bias),
      {x, weight, bias},
      [x = save_input_for(weight, x), weight = weight.value()](BackwardContext& gradients) {
        linear_gradients(gradients, x, weight, gradients.output());
      });
}

Variable linear_of_two(const Variable& a,
                       const Variable& a_weight,
                       const Variable& b,
                       const Variable& b_weight,
                       const Variable& bias) {
  require_width(a, a_weight);
  require_width(b, b_weight);
  require(a.shape().rows() == b.shape().rows(),
          "expected equal numbers of rows, found shapes {} and {}",
          a.shape(),
          b.shape());
  Tensor y = product_of(a, a_weight, bias);
  multiply({.a = matrix(b.value()),
            .b = b_weight.value(),
            .c = matrix(y),
            .transpose_b = true,
            .accumulate = true});
  return record(std::move(y),
                {a, a_weight, bias, b, b_weight, Variable()},
                [a = save_input_for(a_weight, a),
                 b = save_input_for(b_weight, b),
                 a_weight = a_weight.value(),
                 b_weight = b_weight.value()](BackwardContext& gradients) {
                  linear_gradients(gradients, a, a_weight, gradients.output());
                  linear_gradients(gradients, b, b_weight, gradients.output(), 3);
                });
}

Variable feed_forward(const Variable& x,
                      const FeedForwardWeights& weights,
                      const Hidden& hidden,
                      bool unread) {
  const auto& [in, in_bias, out, out_bias] = weights;
  require_width(x, in);
  Tensor h = product_like(x, in);
  // The gradient of relu reads its output. Others write `before` in every pass, recorded or not,
  // because a recomputation must produce identical values.
  const Tensor before = hidden.activation == Activation::relu ? Tensor() : h.empty_like();
  multiply({.a = matrix(x.value()),
            .b = in.value(),
            .c = matrix(h),
            .transpose_b = true,
            .bias = in_bias.value(),
            .activation = hidden.activation,
            .before = before});
  drop_in_place(hidden, h);
  const Variable inside(h);
  require_width(inside, out);
  Tensor y = product_like(inside, out);
  if (!unread)
    multiply({.a = matrix(h),
              .b = out.value(),
              .c = matrix(y),
              .transpose_b = true,
              .bias = out_bias.value()});
  // If the activation's gradient does not read the hidden layer, only the weight gradient does.
  if (before.defined() && !out.requires_grad()) h = {};
  return record(std::move(y),
                {x, in, in_bias, out, out_bias},
                [x = save_input_for(in, x),
                 in = in.value(),
                 out = out.value(),
                 h = std::move(h),
                 before,
                 hidden](BackwardContext& gradients) {
                  const Tensor& dy = gradients.output();
                  weight_gradients(
                      gradients, 3, [&] { return h; }, dy);
                  // The hidden layer is not read again, except for relu.
                  const bool may_write = before.defined() && h.defined();
                  const Tensor dh = may_write ? h : (before.defined() ? before : h).empty_like();
                  const Tensor kept = before.defined() ? before : h;
                  const bool at_once = hidden.rate == 0;
                  Matmul product = {.a = matrix(dy), .b = out, .c = matrix(dh)};
                  if (at_once) {
                    product.activation = hidden.activation;
                    product.before = kept;
                    product.derivative = true;
                  }
                  multiply(product);
                  if (!at_once) {
                    drop_in_place(hidden, dh);
                    on(dh.device(), [&](auto backend) {
                      activate_backward(backend, hidden.activation, kept, dh, dh);
                    });
                  }
                  linear_gradients(gradients, x, in, dh);
                });
}

Variable gated(Activation activation, const Variable& before, const Variable& factor) {
  const GatedHidden call = {.activation = activation,
                            .before = before.value(),
                            .factor = factor.value(),
                            .y = before.value().empty_like()};
  on(call.y.device(), [&](auto backend) { gated_hidden(backend, call); });
  return record(
      call.y,
      {before, factor},
      [activation, before = call.before, factor = call.factor](BackwardContext& gradients) {
        const GatedHiddenGradient back = {.activation = activation,
                                          .before = before,
                                          .factor = factor,
                                          .dy = gradients.output(),
                                          .dbefore = before.empty_like(),
                                          .dfactor = factor.empty_like()};
        on(before.device(), [&](auto backend) { gated_hidden_backward(backend, back); });
        if (gradients.needs_gradient(0)) gradients.set(0, back.dbefore);
        if (gradients.needs_gradient(1)) gradients.set(1, back.dfactor);
      });
}

Variable gated_feed_forward(const Variable& x,
                            const GatedForward& weights,
                            const Hidden& hidden,
                            bool unread) {
  const auto& [in, in_bias, up, up_bias, out, out_bias] = weights;
  require_width(x, in);
  require_width(x, up);
  Tensor before = product_of(x, in, in_bias);
  Tensor factor = product_of(x, up, up_bias);
  const auto mixed = [hidden](const Tensor& a, const Tensor& b) {
    const GatedHidden call = {
        .activation = hidden.activation, .before = a, .factor = b, .y = a.empty_like()};
    on(a.device(), [&](auto backend) { gated_hidden(backend, call); });
    drop_in_place(hidden, call.y);
    return call.y;
  };
  Tensor y = product_like(x, out);
  if (!unread) {
    const Variable h(mixed(before, factor));
    require_width(h, out);
    multiply({.a = matrix(h.value()),
              .b = out.value(),
              .c = matrix(y),
              .transpose_b = true,
              .bias = out_bias.value()});
  }
  return record(std::move(y),
                {x, in, in_bias, x, up, up_bias, Variable(), out, out_bias},
                [x = save_input_for(in, x),
                 again = save_input_for(up, x),
                 in = in.value(),
                 up = up.value(),
                 out = out.value(),
                 before = std::move(before),
                 factor = std::move(factor),
                 mixed,
                 hidden](BackwardContext& gradients) {
                  const Tensor& dy = gradients.output();
                  Tensor h = mixed(before, factor);
                  weight_gradients(
                      gradients, 7, [&] { return h; }, dy);
                  // Neither the hidden layer nor its factors are read again after their gradients.
                  multiply({.a = matrix(dy), .b = out, .c = matrix(h)});
                  drop_in_place(hidden, h);
                  const GatedHiddenGradient call = {.activation = hidden.activation,
                                                    .before = before,
                                                    .factor = factor,
                                                    .dy = h,
                                                    .dbefore = before,
                                                    .dfactor = factor};
                  on(h.device(), [&](auto backend) { gated_hidden_backward(backend, call); });
                  h = {};
                  linear_gradients(gradients, x, in, before);
                  linear_gradients(gradients, again, up, factor, 3);
                });
}

}  // namespace longspan
