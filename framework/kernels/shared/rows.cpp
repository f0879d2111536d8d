// Rows: token-dependent spans, padding, repeated key heads, column scaling.
#include "framework/kernels/rows.h"

#include <type_traits>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Token-dependent spans.

template <typename T>
struct TokenSpan {
  using A = Accumulator<T>;
  A limit;
  const T* x;
  const A* bias;
  A* z;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    z[i] = limit / (A{1} + fast_exp(-wide(x[i]) - bias[c]));
  }
};

template <typename A>
struct TokenSpanGradient {
  A limit;
  const A* z;
  const A* dz;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    return dz[i] * z[i] * (A{1} - z[i] / limit);
  }
};

// Zeroing of padding rows.

template <typename T>
struct HideElement {
  std::int64_t rows, row, time, begin, width, position, positions;
  const std::int64_t* length;
  const std::uint8_t* padding;
  const T* x;
  T* y;

  explicit HideElement(const MaskPadding& hide)
      : rows(hide.end - hide.begin),
        row(hide.x.elements() / hide.x.shape()[0] / hide.x.shape()[1]),
        time(hide.x.shape()[1]),
        begin(hide.begin),
        width(rows * row),
        position(hide.position),
        positions(hide.padding.defined() ? hide.padding.shape()[1] : 0),
        length(hide.length.defined() ? hide.length.data<std::int64_t>() : nullptr),
        padding(hide.padding.defined() ? hide.padding.data<std::uint8_t>() : nullptr),
        x(hide.x.data<T>()),
        y(hide.y.data<T>()) {}

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t b = i / width, within = i % width;
    const std::int64_t at = position + within / row;
    const std::int64_t element = (b * time + begin) * row + within;
    const bool late = length != nullptr && at >= length[b];
    const bool hidden = padding != nullptr && padding[b * positions + at] != 0;
    y[element] = late || hidden ? T(Accumulator<T>{0}) : x[element];
  }
};

// Repetition of key heads.

// Groups are the query heads.
template <typename T>
struct RepeatHeads {
  struct Head {
    const T* x;
    T* y;

    [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                                std::int64_t c) const {
      y[i] = x[c];
    }
  };
  std::int64_t times, dim;
  const T* x;
  T* y;

  LONGSPAN_HOST_DEVICE Head of(std::int64_t head) const { return {x + head / times * dim, y}; }
};

// Groups are the key heads. A constant number of query heads vectorizes; 0: `times`.
template <int constant, typename From, typename T>
struct SumHeads {
  struct Head {
    std::int64_t times, dim;
    const From* dy;
    T* dx;
    bool add;

    [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                                std::int64_t c) const {
      Accumulator<T> sum = add ? wide(dx[i]) : Accumulator<T>{0};
      for (std::int64_t k = 0; k < (constant > 0 ? constant : times); ++k)
        sum += wide(dy[k * dim + c]);
      put(dx[i], sum);
    }
  };
  std::int64_t times, dim;
  const From* dy;
  T* dx;
  bool add;

  LONGSPAN_HOST_DEVICE Head of(std::int64_t head) const {
    return {times, dim, dy + head * times * dim, dx, add};
  }
};

// Calls f with the number of query heads of a key head as a constant, 0 for rare ones.
template <typename F>
void with_constant(std::int64_t times, const F& f) {
  switch (times) {
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    default:
      return f(std::integral_constant<int, 0>());
  }
}

// Returns the ratio of `many` heads to `few` heads.
std::int64_t times_of(const Tensor& few, const Tensor& many) {
  const Shape &a = few.shape(), &b = many.shape();
  const bool equal = a.dimensions() == b.dimensions() && a.dimensions() >= 3 &&
                     a.width() == b.width() &&
                     (few.dtype() == many.dtype() || accumulator_of(few.dtype()) == many.dtype());
  require(equal && a[-2] > 0 && b[-2] % a[-2] == 0 && b == a.with(-2, b[-2]),
          "repeat_kv: cannot repeat {} {} into {} {}",
          name_of(few.dtype()),
          a,
          name_of(many.dtype()),
          b);
  return b[-2] / a[-2];
}

// Column scaling, products.

template <typename T, typename F>
struct ScaleColumn {
  const T* x;
  const F* factors;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    put(y[i], wide(x[i]) * static_cast<Accumulator<T>>(wide(factors[c])));
  }
};

template <typename T>
struct Multiply {
  const T* a;
  const T* b;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return wide(a[i]) * wide(b[i]);
  }
};

}  // namespace

void token_spans(
    Backend backend, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  require(x.elements() == z.elements() && z.dtype() == accumulator_of(x.dtype()) &&
              bias.dtype() == z.dtype() && bias.elements() == x.shape().width(),
          "token_spans: z {} {} and bias {} {} do not match x {} {}",
          name_of(z.dtype()),
          z.shape(),
          name_of(bias.dtype()),
          bias.shape(),
          name_of(x.dtype()),
          x.shape());
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_elements(
        backend,
        x.shape(),
        TokenSpan<T>{static_cast<A>(limit), x.data<T>(), bias.data<A>(), z.data<A>()});
  });
}

void token_spans_backward(
    Backend backend, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  require(z.elements() == dz.elements() && z.elements() == dx.elements() &&
              z.dtype() == dz.dtype() && z.dtype() == accumulator_of(dx.dtype()),
          "token_spans_backward: dz {} {} and dx {} {} do not match z {} {}",
          name_of(dz.dtype()),
          dz.shape(),
          name_of(dx.dtype()),
          dx.shape(),
          name_of(z.dtype()),
          z.shape());
  with_floating_type(dx.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    write_elements(backend,
                   z.elements(),
                   dx.data<T>(),
                   TokenSpanGradient<A>{static_cast<A>(limit), z.data<A>(), dz.data<A>()});
  });
}

void mask_padding(Backend backend, const MaskPadding& hide) {
  check(hide);
  if (hide.x.elements() == 0) return;
  with_floating_type(hide.x.dtype(), [&](auto tag) {
    const HideElement<typename decltype(tag)::type> element(hide);
    for_each_element(backend, hide.x.shape()[0] * element.width, element);
  });
}

void repeat_kv(Backend backend, const Tensor& x, const Tensor& y) {
  const std::int64_t times = times_of(x, y);
  require(x.dtype() == y.dtype(), "repeat_kv: expected tensors of one dtype");
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    const std::int64_t dim = x.shape().width();
    parallel_groups(backend,
                    dim == 0 ? 0 : y.elements() / dim,
                    dim,
                    RepeatHeads<T>{times, dim, x.data<T>(), y.data<T>()});
  });
}

void sum_grouped_heads(Backend backend, const Tensor& dy, const Tensor& dx, bool add) {
  const std::int64_t times = times_of(dx, dy);
  with_floating_type(dx.dtype(), [&]<typename T>(TypeTag<T>) {
    const auto sum = [&]<typename From>(TypeTag<From>) {
      const std::int64_t dim = dx.shape().width();
      with_constant(times, [&](auto constant) {
        parallel_groups(
            backend,
            dim == 0 ? 0 : dx.elements() / dim,
            dim,
            SumHeads<constant(), From, T>{times, dim, dy.data<From>(), dx.data<T>(), add});
      });
    };
    if (dy.dtype() == dx.dtype())
      sum(TypeTag<T>());
    else
      sum(TypeTag<Accumulator<T>>());
  });
}

void scale_columns(Backend backend, const Tensor& x, const Tensor& factors, const Tensor& y) {
  require_same_shape("scale_columns", x, y);
  const std::int64_t width = factors.elements();
  require(width > 0 && x.elements() % width == 0 &&
              (factors.dtype() == x.dtype() || factors.dtype() == accumulator_of(x.dtype())),
          "scale_columns: x {} {} does not match the factors {} {}",
          name_of(x.dtype()),
          x.shape(),
          name_of(factors.dtype()),
          factors.shape());
  const Shape rows = {x.elements() / width, width};
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    const auto run = [&]<typename F>(TypeTag<F>) {
      parallel_elements(
          backend, rows, ScaleColumn<T, F>{x.data<T>(), factors.data<F>(), y.data<T>()});
    };
    if (factors.dtype() == x.dtype())
      run(TypeTag<T>());
    else
      run(TypeTag<Accumulator<T>>());
  });
}

void multiply(Backend backend, const Tensor& a, const Tensor& b, const Tensor& out) {
  require_same_shape("multiply", a, b);
  require_same_shape("multiply", a, out);
  with_floating_type(a.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, a.elements(), out.data<T>(), Multiply<T>{a.data<T>(), b.data<T>()});
  });
}

}  // namespace longspan
