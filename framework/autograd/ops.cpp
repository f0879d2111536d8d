#include "framework/autograd/ops.h"

#include <algorithm>

#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/embedding.h"
#include "framework/kernels/l2_normalize.h"

namespace longspan {
namespace {

void run(const Dropout& call) {
  on(call.x.device(), [&](auto backend) { dropout(backend, call); });
}

// Row i of the result is row from[i] of x, or zeros. `back`: the inverse map, for the gradient.
Variable moved(const Variable& x, const Tensor& from, const Tensor& back, const Shape& shape) {
  const auto move = [](const Tensor& rows, const Tensor& ids, const Shape& of) {
    Tensor result = Tensor::empty(of, rows.dtype(), rows.device());
    on(rows.device(), [&](auto backend) {
      embedding_gather(backend, {.table = matrix(rows), .ids = ids, .out = matrix(result)});
    });
    return result;
  };
  return record(
      move(x.value(), from, shape), {x}, [move, back, of = x.shape()](BackwardContext& gradients) {
        gradients.set(0, move(gradients.output(), back, of));
      });
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  require(a.shape() == b.shape(), "cannot add shapes {} and {}", a.shape(), b.shape());
  Tensor out = a.value().empty_like();
  on(out.device(), [&](auto backend) { add(backend, a.value(), b.value(), out); });
  return record(std::move(out), {a, b}, [](BackwardContext& gradients) {
    for (const std::size_t input : {0u, 1u})
      if (gradients.needs_gradient(input)) gradients.set(input, gradients.output());
  });
}

Variable add_scalar(const Variable& x, double value) {
  const Device& device = x.value().device();
  Tensor out = Tensor::zeros(x.shape(), x.value().dtype(), device, MemoryTag::activations);
  on(device, [&](auto backend) {
    clamp(backend, out, value, value);
    accumulate(backend, 1, x.value(), out);
  });
  return record(std::move(out), {x}, [](BackwardContext& gradients) {
    gradients.set(0, gradients.output());
  });
}

Variable add_bias(const Variable& x, const Variable& bias) {
  const Tensor& value = x.value();
  const Shape rows = {value.shape().rows(), 1, value.shape().width()};
  Tensor y = value.empty_like();
  on(y.device(), [&](auto backend) {
    scale_and_add_rows(backend,
                       1.0,
                       value.reshape(rows),
                       bias.value().reshape({1, value.shape().width()}),
                       y.reshape(rows));
  });
  return record(std::move(y), {x, bias}, [](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    if (gradients.needs_gradient(1)) {
      const Tensor dbias = gradients.accumulate_target(1);
      on(dy.device(), [&](auto backend) { add_column_sums(backend, matrix(dy), dbias); });
    }
    if (gradients.needs_gradient(0)) gradients.set(0, dy);
  });
}

Variable activate(Activation activation, const Variable& x) {
  if (activation == Activation::none) return x;
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { activate(backend, activation, x.value(), y); });
  // The gradient of relu needs only its output, which later ops usually save anyway.
  const Tensor kept = activation == Activation::relu ? y : x.value();
  return record(std::move(y), {x}, [activation, kept](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    on(dx.device(), [&](auto backend) { activate_backward(backend, activation, kept, dx, dx); });
    gradients.set(0, dx);
  });
}

Variable dropout(const Variable& x,
                 double rate,
                 const Random& random,
                 const ShardPlacement& placement,
                 const Tensor& rows) {
  if (rate == 0) return x;
  const Tensor& value = x.value();
  Tensor y = value.empty_like();
  run({.x = value, .y = y, .rate = rate, .random = random, .placement = placement, .rows = rows});
  return record(std::move(y), {x}, [rate, random, placement, rows](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    run({.x = dx, .y = dx, .rate = rate, .random = random, .placement = placement, .rows = rows});
    gradients.set(0, dx);
  });
}

Variable dropout_add(const Variable& a,
                     const Variable& x,
                     double rate,
                     const Random& random,
                     const ShardPlacement& placement) {
  if (rate == 0) return add(a, x);
  require(a.shape() == x.shape(), "cannot add shapes {} and {}", a.shape(), x.shape());
  Tensor y = a.value().empty_like();
  on(y.device(), [&](auto backend) {
    dropout_add(backend,
                a.value(),
                {.x = x.value(), .y = y, .rate = rate, .random = random, .placement = placement});
  });
  return record(std::move(y), {a, x}, [rate, random, placement](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    if (gradients.needs_gradient(1)) {
      const Tensor dx = dy.empty_like();
      run({.x = dy, .y = dx, .rate = rate, .random = random, .placement = placement});
      gradients.set(1, dx);
    }
    if (gradients.needs_gradient(0)) gradients.set(0, dy);
  });
}

Variable embedding(const Variable& table,
                   const Tensor& ids,
                   std::int64_t begin,
                   double scale,
                   std::optional<std::int64_t> rows) {
  const std::int64_t count = rows.value_or(table.shape()[0]);
  const std::int64_t width = table.shape()[1];
  Tensor out = Tensor::empty(
      {ids.shape()[0], ids.shape()[1], width}, table.value().dtype(), table.value().device());
  const Tensor flat_ids = ids.reshape({ids.elements()});
  on(out.device(), [&](auto backend) {
    embedding_gather(backend,
                     {.table = table.value().slice(0, count),
                      .ids = flat_ids,
                      .begin = begin,
                      .scale = scale,
                      .out = matrix(out)});
  });
  return record(
      std::move(out), {table}, [flat_ids, begin, scale, count](BackwardContext& gradients) {
        const Tensor& dout = gradients.output();
        const Tensor dtable = gradients.accumulate_target(0).slice(0, count);
        on(dout.device(), [&](auto backend) {
          embedding_scatter(backend,
                            {.dout = matrix(dout),
                             .ids = flat_ids,
                             .begin = begin,
                             .scale = scale,
                             .dtable = dtable});
        });
      });
}

Variable first_features(const Variable& x, std::int64_t count) {
  const std::int64_t width = x.shape().width(), rows = x.shape().rows();
  if (count == width) return x;
  require(count < width, "expected x to have more than {} features, found {}", count, width);
  Tensor y = Tensor::empty(x.shape().with(-1, count), x.value().dtype(), x.value().device());
  const Shape wide = {rows, width, 1}, narrow = {rows, count, 1};
  on(y.device(), [&](auto backend) {
    copy_rows(backend, x.value().reshape(wide), 0, y.reshape(narrow), 0, count, false);
  });
  return record(std::move(y), {x}, [wide, narrow, count](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor dx = gradients.accumulate_target(0);
    on(dy.device(), [&](auto backend) {
      copy_rows(backend, dy.reshape(narrow), 0, dx.reshape(wide), 0, count, true);
    });
  });
}

Variable scale_and_add_positions(const Variable& x, double factor, const Variable& table) {
  const std::int64_t time = x.shape()[1];
  require(table.shape()[0] >= time && table.shape()[1] == x.shape()[2],
          "positions of shape {} do not cover a segment of shape {}",
          table.shape(),
          x.shape());
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) {
    scale_and_add_rows(backend, factor, x.value(), table.value().slice(0, time), y);
  });
  return record(std::move(y), {x, table}, [factor, time](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    if (gradients.needs_gradient(1)) {
      const Tensor dtable = gradients.accumulate_target(1).slice(0, time);
      const std::int64_t row = time * dy.shape()[2];
      on(dy.device(), [&](auto backend) {
        add_column_sums(backend, dy.reshape({dy.shape()[0], row}), dtable.reshape({row}));
      });
    }
    if (gradients.needs_gradient(0)) {
      const Tensor dx = dy.empty_like();
      on(dy.device(), [&](auto backend) { scale(backend, factor, dy, dx); });
      gradients.set(0, dx);
    }
  });
}

Variable concat_time(const Variable& before, const Variable& x, double before_products) {
  if (!before.defined() || before.shape()[1] == 0) return x;
  const std::int64_t memory = before.shape()[1];
  const std::int64_t time = x.shape()[1];
  Tensor out =
      Tensor::empty(x.shape().with(1, memory + time), x.value().dtype(), x.value().device());
  on(out.device(), [&](auto backend) {
    copy_rows(backend, before.value(), 0, out, 0, memory, false);
    copy_rows(backend, x.value(), 0, out, memory, time, false);
  });
  return record(
      std::move(out), {before, x}, [memory, time, before_products](BackwardContext& gradients) {
        const Tensor& dout = gradients.output();
        if (DeviceState& device = dout.device().state();
            device.is_meta() && !gradients.needs_gradient(0))
          device.get_or_create<RedundantFlops>().flops += before_products;
        const auto take = [&](std::size_t input, std::int64_t begin, std::int64_t count) {
          if (!gradients.needs_gradient(input)) return;
          const GradientTarget target = gradients.target(input);
          on(dout.device(), [&](auto backend) {
            copy_rows(backend, dout, begin, target.tensor, 0, count, target.add);
          });
        };
        take(0, 0, memory);
        take(1, memory, time);
      });
}

Variable sum(const Variable& x, double factor) {
  const Tensor& value = x.value();
  Tensor total = empty_accumulator(value, {1});
  on(value.device(), [&](auto backend) { sum(backend, value, factor, total); });
  return record(std::move(total),
                {x},
                [x = value.shape(), dtype = value.dtype(), factor](BackwardContext& gradients) {
                  const Tensor& dtotal = gradients.output();
                  const Tensor dx = Tensor::empty(x, dtype, dtotal.device());
                  on(dx.device(), [&](auto backend) { fill(backend, factor, dtotal, dx); });
                  gradients.set(0, dx);
                });
}

Variable reshape(const Variable& x, const Shape& shape) {
  return record(x.value().reshape(shape), {x}, [](BackwardContext& gradients) {
    gradients.set(0, gradients.output());
  });
}

Variable cast(const Variable& x, DType dtype) {
  if (x.value().dtype() == dtype) return x;
  return record(
      to_dtype(x.value(), dtype), {x}, [from = x.value().dtype()](BackwardContext& gradients) {
        gradients.set(0, to_dtype(gradients.output(), from));
      });
}

Variable soft_cap(const Variable& x, double cap) {
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { soft_cap(backend, cap, x.value(), y); });
  return record(std::move(y), {x}, [cap, x = x.value()](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor dx = dy.empty_like();
    on(dy.device(), [&](auto backend) { softcap_backward(backend, cap, x, dy, dx); });
    gradients.set(0, dx);
  });
}

Variable tanh(const Variable& x) {
  const Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { tanh(backend, x.value(), y); });
  return record(Tensor(y), {x}, [y](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    on(dx.device(), [&](auto backend) { tanh_backward(backend, y, dx, dx); });
    gradients.set(0, dx);
  });
}

Variable multiply_scalar(const Variable& x, double factor) {
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { scale(backend, factor, x.value(), y); });
  return record(std::move(y), {x}, [factor](BackwardContext& gradients) {
    const GradientTarget target = gradients.target(0);
    const Tensor& dy = gradients.output();
    on(dy.device(), [&](auto backend) {
      if (target.add)
        accumulate(backend, factor, dy, target.tensor);
      else
        scale(backend, factor, dy, target.tensor);
    });
  });
}

Variable l2_normalize(const Variable& x, double epsilon) {
  Tensor y = x.value().empty_like();
  const DType wide = accumulator_of(y.dtype());
  const Tensor inverse = Tensor::empty({y.shape().rows()}, wide, y.device());
  on(y.device(), [&](auto backend) {
    l2_normalize(backend, {.x = x.value(), .y = y, .inverse_norm = inverse, .epsilon = epsilon});
  });
  Tensor kept = y;
  return record(std::move(y), {x}, [y = std::move(kept), inverse](BackwardContext& gradients) {
    const Tensor dx = gradients.accumulate_target(0);
    on(y.device(), [&](auto backend) {
      l2_normalize_backward(backend,
                            {.y = y, .inverse_norm = inverse, .dy = gradients.output(), .dx = dx});
    });
  });
}

Variable gather_rows(const Variable& x, const RowSubset& rows) {
  require(x.shape().rows() == rows.where.elements(),
          "row subset: expected {} rows, found shape {}",
          rows.where.elements(),
          x.shape());
  return moved(x, rows.which, rows.where, {1, rows.which.elements(), x.shape().width()});
}

Variable scatter_rows(const Variable& y, const RowSubset& rows, const Shape& shape) {
  require(shape.rows() == rows.where.elements() && y.shape().rows() == rows.which.elements() &&
              shape.width() == y.shape().width(),
          "row subset: cannot write {} of {} rows of shape {} into shape {}",
          rows.which.elements(),
          rows.where.elements(),
          y.shape(),
          shape);
  return moved(y, rows.where, rows.which, shape);
}

}  // namespace longspan
