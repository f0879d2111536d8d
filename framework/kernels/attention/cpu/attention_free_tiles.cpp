#include "framework/kernels/attention/cpu/attention_free_tiles.h"

#include <algorithm>
#include <array>
#include <memory>

#include "framework/kernels/attention/cpu/recurrence_products.h"
#include "framework/kernels/attention/shared/attention_free_call.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace aft_tiles {
namespace {

using recurrence_cpu::Matrix;
using recurrence_cpu::multiply;
using recurrence_cpu::Store;
using tile_attention::Interval;
using tile_attention::lanes;

// Queries, keys and channels of a tile, and the row length of its matrices.
constexpr std::int64_t side = 64;

// The largest difference of two exponents in a tile of products. Its largest terms are then at
// least e^-most_spread of the product of the largest factors.
template <typename A>
constexpr A most_spread = std::is_same_v<A, float> ? A{60} : A{600};

template <typename A>
using Square = std::array<A, side * side>;
template <typename A>
using Row = std::array<A, side>;

template <typename A>
Matrix<A> matrix(Square<A>& of) {
  return {of.data(), side};
}

std::int64_t size(const Interval& range) { return range.end - range.begin; }

// Calls f for the tiles of a range.
template <typename F>
void for_tiles(const Interval& range, const F& f) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += side)
    f(Interval{begin, std::min(begin + side, range.end)});
}

// Channels [begin, begin + count) of batch row b.
struct Channels {
  std::int64_t b, begin, count;
};

// e^(key - top) of each key and channel, and these times the values. Hidden keys have zeros.
template <typename T>
struct KeyTile {
  using A = Accumulator<T>;
  Row<A> top;
  Square<A> power, value;
  A spread;
  std::int64_t width;  // of the rows, a multiple of a vector

  void load(const AftCall<T>& of, const Channels& at, const Interval& keys) {
    Row<A> low;
    top.fill(lowest_exponent<A>);
    low.fill(-lowest_exponent<A>);
    width = tile_attention::round_up(at.count, lanes<A>);
    const auto each = [&](const auto& visible, const auto& is_hidden) {
      for (std::int64_t j = keys.begin; j < keys.end; ++j)
        if (of.is_hidden(at.b, j))
          is_hidden((j - keys.begin) * side);
        else
          visible((j - keys.begin) * side, (at.b * of.keys + j) * of.channels + at.begin);
    };
    each(
        [&](std::int64_t, std::int64_t from) {
#pragma omp simd
          for (std::int64_t l = 0; l < at.count; ++l) {
            const A x = wide(of.key[from + l]);
            top[l] = x > top[l] ? x : top[l];
            low[l] = x < low[l] ? x : low[l];
          }
        },
        [](std::int64_t) {});
    spread = 0;
    for (std::int64_t l = 0; l < at.count; ++l) spread = std::max(spread, top[l] - low[l]);
    const auto clear = [&](std::int64_t to, std::int64_t first) {
      std::fill(power.begin() + to + first, power.begin() + to + width, A{});
      std::fill(value.begin() + to + first, value.begin() + to + width, A{});
    };
    each(
        [&](std::int64_t to, std::int64_t from) {
#pragma omp simd
          for (std::int64_t l = 0; l < at.count; ++l) {
            const A e = fast_exp(wide(of.key[from + l]) - top[l]);
            power[to + l] = e;
            value[to + l] = e * wide(of.value[from + l]);
          }
          clear(to, at.count);
        },
        [&](std::int64_t to) { clear(to, 0); });
  }
};

// e^(bias - top) of each near pair, otherwise 0: a row for each query.
template <typename T>
struct BiasTile {
  using A = Accumulator<T>;
  Row<A> top;
  std::array<Interval, side> near;  // keys of each query, relative to the first of the tile
  Square<A> power;
  A spread;
  bool has_pairs;

  void load(const AftCall<T>& of, std::int64_t b, const Interval& queries, const Interval& keys) {
    spread = 0;
    has_pairs = false;
    for (std::int64_t r = 0; r < size(queries); ++r) {
      const std::int64_t i = queries.begin + r;
      const std::int64_t begin = std::max(of.first_near(b, i), keys.begin) - keys.begin;
      const std::int64_t end = std::min(of.end_near(i), keys.end) - keys.begin;
      const std::int64_t base = of.bias_base(b, i) + keys.begin;
      near[r] = {begin, std::max(begin, end)};
      top[r] = lowest_exponent<A>;
      A low = -lowest_exponent<A>, high = lowest_exponent<A>;
#pragma omp simd reduction(max : high) reduction(min : low)
      for (std::int64_t j = begin; j < end; ++j) {
        high = std::max(high, of.bias[base + j]);
        low = std::min(low, of.bias[base + j]);
      }
      A* const to = power.data() + r * side;
      std::fill_n(to, side, A{});
      if (begin >= end) continue;
      has_pairs = true;
      top[r] = high;
      spread = std::max(spread, high - low);
#pragma omp simd
      for (std::int64_t j = begin; j < end; ++j) to[j] = fast_exp(of.bias[base + j] - high);
    }
  }
};

// Whether the products of a tile are exact up to rounding.
template <typename T>
bool multiplies(const BiasTile<T>& bias, const KeyTile<T>& keys) {
  return bias.spread + keys.spread <= most_spread<Accumulator<T>>;
}

// Calls f(j, bias) for the near keys of query r of a tile that are not hidden, j relative to the
// first key of the tile.
template <typename T, typename F>
void for_keys(const AftCall<T>& of,
              std::int64_t b,
              const BiasTile<T>& tile,
              std::int64_t r,
              const Interval& queries,
              const Interval& keys,
              const F& f) {
  const std::int64_t base = of.bias_base(b, queries.begin + r) + keys.begin;
  for (std::int64_t j = tile.near[r].begin; j < tile.near[r].end; ++j)
    if (!of.is_hidden(b, keys.begin + j)) f(j, of.bias[base + j]);
}

// Calls f(r, j, bias) for all queries r of a tile.
template <typename T, typename F>
void for_pairs(const AftCall<T>& of,
               std::int64_t b,
               const BiasTile<T>& tile,
               const Interval& queries,
               const Interval& keys,
               const F& f) {
  for (std::int64_t r = 0; r < size(queries); ++r)
    for_keys(of, b, tile, r, queries, keys, [&](std::int64_t j, auto bias) { f(r, j, bias); });
}

// The means of a tile of queries.
template <typename T>
class Means {
 public:
  using A = Accumulator<T>;

  Means(const AttentionFree& call, const Tensor& far)
      : of_(call),
        far_(elements_or_null<A>(far)),
        out_(call.out.data<T>()),
        log_sum_(call.log_sum.data<A>()) {}

  void run(const Channels& at, const Interval& queries) {
    start(at, queries);
    // Documents of later queries start no earlier.
    const Interval all = {of_.first_near(at.b, queries.begin), of_.end_near(queries.end - 1)};
    for_tiles(all, [&](const Interval& keys) {
      bias_.load(of_, at.b, queries, keys);
      if (!bias_.has_pairs) return;
      keys_.load(of_, at, keys);
      if (multiplies(bias_, keys_))
        add_products(at, queries, keys);
      else
        add_pairs(at, queries, keys);
    });
    finish(at, queries);
  }

 private:
  std::int64_t row(const Channels& at, std::int64_t i) const { return at.b * of_.queries + i; }

  void start(const Channels& at, const Interval& queries) {
    top_.fill(lowest_exponent<A>);
    u_.fill(0);
    z_.fill(0);
    for (std::int64_t r = 0; far_ != nullptr && r < size(queries); ++r) {
      const A* const from = far_ + row(at, queries.begin + r) * 3 * of_.channels + at.begin;
      std::copy_n(from, at.count, top_.begin() + r * side);
      std::copy_n(from + of_.channels, at.count, u_.begin() + r * side);
      std::copy_n(from + 2 * of_.channels, at.count, z_.begin() + r * side);
    }
  }
  void add_products(const Channels& at, const Interval& queries, const Interval& keys) {
    const auto sums = [&](Square<A>& of_keys, Square<A>& to) {
      multiply<false, Store::replace>(
          size(queries), size(keys), keys_.width, matrix(bias_.power), matrix(of_keys), matrix(to));
    };
    sums(keys_.value, more_u_);
    sums(keys_.power, more_z_);
    for (std::int64_t r = 0; r < size(queries); ++r) {
      const std::int64_t begin = r * side;
#pragma omp simd
      for (std::int64_t l = 0; l < at.count; ++l) {
        const std::int64_t at_l = begin + l;
        // Without visible keys the tops are those of other queries.
        const A x = more_z_[at_l] != A{0} ? keys_.top[l] + bias_.top[r] : top_[at_l];
        add_terms(top_[at_l], u_[at_l], z_[at_l], x, more_u_[at_l], more_z_[at_l]);
      }
    }
  }
  void add_pairs(const Channels& at, const Interval& queries, const Interval& keys) {
    const auto key_at = [&](std::int64_t j) {
      return (at.b * of_.keys + keys.begin + j) * of_.channels + at.begin;
    };
    for (std::int64_t r = 0; r < size(queries); ++r) {
      A *const top = top_.data() + r * side, *const u = u_.data() + r * side;
      A* const z = z_.data() + r * side;
      Row<A> larger;
      std::copy_n(top, at.count, larger.begin());
      for_keys(of_, at.b, bias_, r, queries, keys, [&](std::int64_t j, A bias) {
        const T* const key = of_.key + key_at(j);
#pragma omp simd
        for (std::int64_t l = 0; l < at.count; ++l) {
          const A x = wide(key[l]) + bias;
          larger[l] = x > larger[l] ? x : larger[l];
        }
      });
#pragma omp simd
      for (std::int64_t l = 0; l < at.count; ++l) {
        const A old = fast_exp(top[l] - larger[l]);
        u[l] *= old;
        z[l] *= old;
        top[l] = larger[l];
      }
      for_keys(of_, at.b, bias_, r, queries, keys, [&](std::int64_t j, A bias) {
        const T *const key = of_.key + key_at(j), *const value = of_.value + key_at(j);
#pragma omp simd
        for (std::int64_t l = 0; l < at.count; ++l) {
          const A e = fast_exp(wide(key[l]) + bias - top[l]);
          u[l] += e * wide(value[l]);
          z[l] += e;
        }
      });
    }
  }
  void finish(const Channels& at, const Interval& queries) {
    for (std::int64_t r = 0; r < size(queries); ++r)
      for (std::int64_t l = 0; l < at.count; ++l) {
        const std::int64_t from = r * side + l;
        const std::int64_t to = row(at, queries.begin + r) * of_.channels + at.begin + l;
        write_mean(top_[from], u_[from], z_[from], out_[to], log_sum_[to]);
      }
  }

  AftCall<T> of_;
  const A* far_;
  T* out_;
  A* log_sum_;
  BiasTile<T> bias_;
  KeyTile<T> keys_;
  Square<A> top_, u_, z_, more_u_, more_z_;
};

// dout of each query, divided by its denominator relative to the tops of a tile, and that times
// out. Queries without pairs have zeros.
template <typename T>
struct QueryTile {
  using A = Accumulator<T>;
  Square<A> gradient, product;

  void load(const AftCall<T>& of,
            const T* dout,
            const Channels& at,
            const Interval& queries,
            const BiasTile<T>& bias,
            const KeyTile<T>& keys) {
    for (std::int64_t r = 0; r < size(queries); ++r) {
      const std::int64_t to = r * side, near = size(bias.near[r]);
      const std::int64_t first = near > 0 ? at.count : 0;
      std::fill(gradient.begin() + to + first, gradient.begin() + to + keys.width, A{});
      std::fill(product.begin() + to + first, product.begin() + to + keys.width, A{});
      const std::int64_t from = (at.b * of.queries + queries.begin + r) * of.channels + at.begin;
#pragma omp simd
      for (std::int64_t l = 0; l < first; ++l) {
        // A larger x occurs only where all near keys are hidden, whose factors are 0.
        const A x = keys.top[l] + bias.top[r] - of.log_sum[from + l];
        const A g = fast_exp(x > most_spread<A> ? most_spread<A> : x) * wide(dout[from + l]);
        gradient[to + l] = g;
        product[to + l] = g * wide(of.out[from + l]);
      }
    }
  }
};

// The gradients of a tile of keys and their values.
template <typename T>
class KeyGradients {
 public:
  using A = Accumulator<T>;

  KeyGradients(const AttentionFreeGradient& call, const Tensor& far)
      : of_(call.forward),
        far_(elements_or_null<A>(far)),
        dout_(call.dout.data<T>()),
        dkey_(call.dkey.data<T>()),
        dvalue_(call.dvalue.data<T>()) {}

  void run(const Channels& at, const Interval& keys) {
    keys_.load(of_, at, keys);
    start(at, keys);
    const std::int64_t first = of_.causal ? keys.begin : keys.begin - of_.window + 1;
    const Interval all = {std::max<std::int64_t>(first - of_.query_begin, 0),
                          std::min(keys.end - 1 + of_.window - of_.query_begin, of_.queries)};
    for_tiles(all, [&](const Interval& queries) {
      bias_.load(of_, at.b, queries, keys);
      if (!bias_.has_pairs) return;
      if (multiplies(bias_, keys_))
        add_products(at, queries, keys);
      else
        add_pairs(at, queries, keys);
    });
    finish(at, keys);
  }

 private:
  void start(const Channels& at, const Interval& keys) {
    for (Square<A>* const sum : {&by_power_, &out_by_power_, &direct_, &out_direct_}) sum->fill(0);
    for (std::int64_t j = 0; far_ != nullptr && j < size(keys); ++j) {
      if (of_.is_hidden(at.b, keys.begin + j)) continue;
      const std::int64_t row = at.b * of_.keys + keys.begin + j;
      const A* const from = far_ + row * 3 * of_.channels + at.begin;
      for (std::int64_t l = 0; l < at.count; ++l) {
        const A e = fast_exp(wide(of_.key[row * of_.channels + at.begin + l]) + from[l]);
        direct_[j * side + l] = e * from[of_.channels + l];
        out_direct_[j * side + l] = e * from[2 * of_.channels + l];
      }
    }
  }
  void add_products(const Channels& at, const Interval& queries, const Interval& keys) {
    queries_.load(of_, dout_, at, queries, bias_, keys_);
    const auto add = [&](Square<A>& of_queries, Square<A>& to) {
      multiply<true, Store::add>(size(keys),
                                 size(queries),
                                 keys_.width,
                                 matrix(bias_.power),
                                 matrix(of_queries),
                                 matrix(to));
    };
    add(queries_.gradient, by_power_);
    add(queries_.product, out_by_power_);
  }
  void add_pairs(const Channels& at, const Interval& queries, const Interval& keys) {
    for_pairs(of_, at.b, bias_, queries, keys, [&](std::int64_t r, std::int64_t j, A bias) {
      const std::int64_t query = (at.b * of_.queries + queries.begin + r) * of_.channels + at.begin;
      const std::int64_t key = (at.b * of_.keys + keys.begin + j) * of_.channels + at.begin;
#pragma omp simd
      for (std::int64_t l = 0; l < at.count; ++l) {
        const A pg = fast_exp(wide(of_.key[key + l]) + bias - of_.log_sum[query + l]) *
                     wide(dout_[query + l]);
        direct_[j * side + l] += pg;
        out_direct_[j * side + l] += pg * wide(of_.out[query + l]);
      }
    });
  }
  void finish(const Channels& at, const Interval& keys) {
    for (std::int64_t j = 0; j < size(keys); ++j) {
      const std::int64_t to = (at.b * of_.keys + keys.begin + j) * of_.channels + at.begin;
      for (std::int64_t l = 0; l < at.count; ++l) {
        const std::int64_t from = j * side + l;
        const A e = keys_.power[from];
        const A dv = direct_[from] + e * by_power_[from];
        put(dvalue_[to + l], dv);
        put(dkey_[to + l],
            wide(of_.value[to + l]) * dv - out_direct_[from] - e * out_by_power_[from]);
      }
    }
  }

  AftCall<T> of_;
  const A* far_;
  const T* dout_;
  T *dkey_, *dvalue_;
  BiasTile<T> bias_;
  KeyTile<T> keys_;
  QueryTile<T> queries_;
  // Sums over queries that e^(key - top) multiplies, and sums of pairs.
  Square<A> by_power_, out_by_power_, direct_, out_direct_;
};

// The gradients of a tile of biases, over all batch rows. Without documents.
template <typename T>
class BiasGradients {
 public:
  using A = Accumulator<T>;

  explicit BiasGradients(const AttentionFreeGradient& call)
      : of_(call.forward),
        batch_(call.forward.key.shape()[0]),
        dout_(call.dout.data<T>()),
        dbias_(call.dbias.data<A>()) {}

  void run(const Interval& queries, const Interval& keys) {
    bias_.load(of_, 0, queries, keys);
    if (!bias_.has_pairs) return;
    by_power_.fill(0);
    direct_.fill(0);
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t c = 0; c < of_.channels; c += side) {
        const Channels at = {b, c, std::min(side, of_.channels - c)};
        keys_.load(of_, at, keys);
        if (multiplies(bias_, keys_))
          add_products(at, queries, keys);
        else
          add_pairs(at, queries, keys);
      }
    for (std::int64_t r = 0; r < size(queries); ++r) {
      A* const to = dbias_ + of_.bias_base(0, queries.begin + r) + keys.begin;
      for (std::int64_t j = bias_.near[r].begin; j < bias_.near[r].end; ++j)
        to[j] = direct_[r * side + j] + bias_.power[r * side + j] * by_power_[r * side + j];
    }
  }

 private:
  void add_products(const Channels& at, const Interval& queries, const Interval& keys) {
    queries_.load(of_, dout_, at, queries, bias_, keys_);
    for (A& x : queries_.product) x = -x;
    const std::int64_t width = tile_attention::round_up(size(keys), lanes<A>);
    const auto add = [&](Square<A>& of_queries, Square<A>& of_keys) {
      recurrence_cpu::transpose(width, keys_.width, matrix(of_keys), matrix(transposed_));
      multiply<false, Store::add>(size(queries),
                                  at.count,
                                  width,
                                  matrix(of_queries),
                                  matrix(transposed_),
                                  matrix(by_power_));
    };
    add(queries_.gradient, keys_.value);
    add(queries_.product, keys_.power);
  }
  void add_pairs(const Channels& at, const Interval& queries, const Interval& keys) {
    for_pairs(of_, at.b, bias_, queries, keys, [&](std::int64_t r, std::int64_t j, A bias) {
      const std::int64_t query = (at.b * of_.queries + queries.begin + r) * of_.channels + at.begin;
      const std::int64_t key = (at.b * of_.keys + keys.begin + j) * of_.channels + at.begin;
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t l = 0; l < at.count; ++l)
        sum += fast_exp(wide(of_.key[key + l]) + bias - of_.log_sum[query + l]) *
               wide(dout_[query + l]) * (wide(of_.value[key + l]) - wide(of_.out[query + l]));
      direct_[r * side + j] += sum;
    });
  }

  AftCall<T> of_;
  std::int64_t batch_;
  const T* dout_;
  A* dbias_;
  BiasTile<T> bias_;
  KeyTile<T> keys_ = {};
  QueryTile<T> queries_ = {};
  Square<A> transposed_ = {}, by_power_, direct_;
};

// Calls run(work, item) for each item below `count`, in order, with one Work(arguments...) for each
// thread.
template <typename Work, typename Run, typename... Arguments>
void for_items(std::int64_t count, const Run& run, const Arguments&... arguments) {
#pragma omp parallel if (count > 1)
  {
    const auto work = std::make_unique<Work>(arguments...);
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < count; ++i) run(*work, i);
  }
}

std::int64_t tiles_of(std::int64_t length) { return (length + side - 1) / side; }

Interval tile_at(std::int64_t index, std::int64_t length) {
  return {index * side, std::min((index + 1) * side, length)};
}

// Calls work.run(channels, tile) for each tile of rows [0, length) of each batch row. last_first:
// the last tiles have most pairs, so they start first.
template <typename Work, typename Call>
void for_row_tiles(
    const Shape& shape, std::int64_t length, bool last_first, const Call& call, const Tensor& far) {
  const std::int64_t blocks = tiles_of(shape[2]), tiles = tiles_of(length);
  const auto run = [&](Work& work, std::int64_t item) {
    const std::int64_t b = item / blocks % shape[0], index = item / blocks / shape[0];
    const Interval channels = tile_at(item % blocks, shape[2]);
    work.run({b, channels.begin, size(channels)},
             tile_at(last_first ? tiles - 1 - index : index, length));
  };
  for_items<Work>(tiles * shape[0] * blocks, run, call, far);
}

}  // namespace
}  // namespace aft_tiles

bool uses_tiles(const AttentionFree& call) {
  constexpr std::int64_t fewest = 32;  // half a tile
  return std::min(call.window, call.key.shape()[1]) >= fewest && call.queries() >= fewest;
}

void mix_by_tiles(const AttentionFree& call, const Tensor& far) {
  using namespace aft_tiles;
  with_floating_type(call.key.dtype(), [&]<typename T>(TypeTag<T>) {
    for_row_tiles<Means<T>>(call.key.shape(), call.queries(), call.causal, call, far);
  });
}

void key_gradients_by_tiles(const AttentionFreeGradient& call, const Tensor& far) {
  using namespace aft_tiles;
  const Shape& shape = call.forward.key.shape();
  with_floating_type(call.forward.key.dtype(), [&]<typename T>(TypeTag<T>) {
    for_row_tiles<KeyGradients<T>>(shape, shape[1], false, call, far);
  });
}

void bias_gradient_by_tiles(const AttentionFreeGradient& call) {
  using namespace aft_tiles;
  call.dbias.zero();
  const AttentionFree& forward = call.forward;
  const std::int64_t queries = forward.queries(), keys = forward.key.shape()[1];
  // The near keys of a tile of queries lie in at most so many tiles.
  const std::int64_t most_keys = side - 1 + AttentionFree::band(forward.window, forward.causal);
  const std::int64_t most_tiles = tiles_of(std::min(most_keys, keys));
  with_floating_type(forward.key.dtype(), [&]<typename T>(TypeTag<T>) {
    const AftCall<T> of(forward);
    const auto run = [&](BiasGradients<T>& work, std::int64_t item) {
      const Interval some = tile_at(item / most_tiles, queries);
      const std::int64_t begin = of.first_near(0, some.begin) + item % most_tiles * side;
      const std::int64_t end = std::min(begin + side, of.end_near(some.end - 1));
      if (begin < end) work.run(some, {begin, end});
    };
    for_items<BiasGradients<T>>(tiles_of(queries) * most_tiles, run, call);
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
