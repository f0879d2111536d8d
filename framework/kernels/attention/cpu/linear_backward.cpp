// Backward pass of linear attention. The gradient of queries is computed forward in time, from the
// preceding state. The gradients of keys and values are computed backward in time, from sums over
// later queries. States are recomputed, not saved.
#include "framework/kernels/attention/cpu/linear_chunk.h"
#include "framework/kernels/attention/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace tile_attention {
namespace {

// The gradients of a chunk's n and d.
template <typename In>
class ChunkGradient {
 public:
  using T = Accumulator<In>;

  ChunkGradient(const LinearProblem<In>& p, const LinearAttentionGradient& g, ScratchArena& carver)
      : p_(p), g_(g), dn(carver.take<T>(tile * p.value_step)) {}

  void read(LinearItem at, Interval rows) {
    p_.read(g_.dout, at, rows, p_.value_step, dn);
    std::fill_n(dd, tile, T{});
    if (p_.call.divisor == Divisor::none) return;
    const auto out = p_.rows(
        static_cast<const In*>(p_.call.out.template data<In>()), p_.call.out, at, rows.begin);
    const T* const divisors = p_.call.divisors.template data<T>();
    for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
      T* const row = dn + r * p_.value_step;
      const T divisor = divisors[p_.place(p_.call.divisors, at, rows.begin + r)];
      const bool held = p_.call.divisor == Divisor::away_from_0 &&
                        std::abs(divisor) == static_cast<T>(p_.call.epsilon);
      if (!held) dd[r] = -dot(row, out.row(r), p_.values) / divisor;
      scale_row(row, p_.value_step, T{1} / divisor);
    }
  }
  // Gradients of pairs: dn.value + dd, for keys up to the query. value_columns: [values, tile].
  void write_pairs(std::int64_t count, const T* value_columns, T* pairs) const {
    product(count,
            Factors<T>{.depth = p_.values,
                       .a = dn,
                       .a_step = p_.value_step,
                       .b = value_columns,
                       .b_step = tile,
                       .c = pairs,
                       .c_step = tile},
            [](std::int64_t, std::int64_t end) {
              return Interval{0, end};
            });
    for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
      for (std::int64_t j = 0; j <= i; ++j) pairs[i * tile + j] += dd[i];
  }

 private:
  const LinearProblem<In>& p_;
  const LinearAttentionGradient& g_;

 public:
  T* const dn;
  T dd[tile];
};

// A state with its values along the rows, [values, feature_step], and the sum of the keys.
template <typename In>
class TransposedState {
 public:
  using T = Accumulator<In>;

  TransposedState(const LinearProblem<In>& p, ScratchArena& carver)
      : p_(p),
        sums(carver.take<T>(p.value_step * p.feature_step)),
        keys(carver.take<T>(p.feature_step)) {}

  void read(const Tensor& states, LinearItem at) const {
    std::fill_n(sums, p_.value_step * p_.feature_step, T{});
    std::fill_n(keys, p_.feature_step, T{});
    if (!states.defined()) return;
    const T* from = p_.state(states, at);
    for (std::int64_t f = 0; f < p_.features; ++f) {
      for (std::int64_t c = 0; c < p_.values; ++c) sums[c * p_.feature_step + f] = *from++;
      keys[f] = *from++;
    }
  }
  void write(const Tensor& states, LinearItem at) const {
    T* to = p_.state(states, at);
    for (std::int64_t f = 0; f < p_.features; ++f) {
      for (std::int64_t c = 0; c < p_.values; ++c) *to++ = sums[c * p_.feature_step + f];
      *to++ = keys[f];
    }
  }
  // The dot product with a state in a tensor.
  T dot_with(const Tensor& states, LinearItem at) const {
    const T* from = p_.state(states, at);
    T sum = 0;
    for (std::int64_t f = 0; f < p_.features; ++f) {
      for (std::int64_t c = 0; c < p_.values; ++c) sum += *from++ * sums[c * p_.feature_step + f];
      sum += *from++ * keys[f];
    }
    return sum;
  }
  void decay(T factor) const {
    scale_row(sums, p_.value_step * p_.feature_step, factor);
    scale_row(keys, p_.feature_step, factor);
  }
  // sums += right^T left.
  void add(std::int64_t rows, const T* right, const T* left) const {
    add_full<true>(p_.values,
                   p_.feature_step,
                   Factors<T>{.depth = rows,
                              .a = right,
                              .a_step = p_.value_step,
                              .b = left,
                              .b_step = p_.feature_step,
                              .c = sums,
                              .c_step = p_.feature_step});
  }
  // to = rows times the state: [rows, feature_step].
  void multiply(std::int64_t rows, const T* right, T* to) const {
    write_full(rows,
               p_.feature_step,
               Factors<T>{.depth = p_.values,
                          .a = right,
                          .a_step = p_.value_step,
                          .b = sums,
                          .b_step = p_.feature_step,
                          .c = to,
                          .c_step = p_.feature_step});
  }

 private:
  const LinearProblem<In>& p_;

 public:
  T* const sums;
  T* const keys;
};

// Writes a row of a gradient, converted from features to their inputs.
template <typename In, typename T>
void write_gradient(
    const LinearProblem<In>& p, const T* gradient, const T* features, T weight, In* to) {
  for (std::int64_t c = 0; c < p.features; ++c) {
    T d = weight * gradient[c];
    // elu'(x) + 1 is 1 where the feature exceeds 1, otherwise the feature itself.
    if (p.call.map == FeatureMap::elu_plus_one && weight != 0)
      d *= std::min(features[c] / weight, T{1});
    else if (p.call.map == FeatureMap::exponential)
      d = gradient[c] * features[c];  // the features already include the weight
    to[c] = static_cast<In>(d);
  }
}

template <typename In>
struct GradientProblem : LinearProblem<In> {
  GradientProblem(const LinearAttentionGradient& gradient, const Tensor& to = {})
      : LinearProblem<In>(gradient.forward), g(gradient), states(to) {}
  const LinearAttentionGradient& g;
  Tensor states;
};

// Forward in time: the gradient of the queries.
template <typename In>
class QueryGradient {
 public:
  using T = Accumulator<In>;

  QueryGradient(const GradientProblem<In>& p, ScratchArena& carver)
      : p_(p),
        state_(p, carver),
        chunk_(p, p.g, carver),
        query_(carver.take<T>(tile * p.feature_step)),
        key_(carver.take<T>(tile * p.feature_step)),
        value_(carver.take<T>(tile * p.value_step)),
        value_columns_(carver.take<T>(tile * p.value_step)),
        pairs_(carver.take<T>(tile * tile)),
        dquery_(carver.take<T>(tile * p.feature_step)) {}

  void run(LinearItem at) {
    state_.read(p_.call.before, at);
    for_chunks(p_.call.parts[static_cast<std::size_t>(at.part)], [&](Interval rows) {
      const std::int64_t count = rows.end - rows.begin;
      chunk_.read(at, rows);
      if (p_.call.causal) decays_.read(p_, at, rows);
      state_.multiply(count, chunk_.dn, dquery_);
      for (std::int64_t r = 0; r < count; ++r) {
        T* const row = dquery_ + r * p_.feature_step;
        add_row(state_.keys, p_.feature_step, chunk_.dd[r], row);
        if (decays_.any()) scale_row(row, p_.feature_step, decays_.from_begin(r));
      }
      if (p_.call.causal) attend_chunk(at, rows);
      finish(at, rows);
    });
  }
  // For a part that has run: the sum over pairs of a key up to its end and a later query.
  T across_end(LinearItem at) const {
    return p_.g.after.defined() ? state_.dot_with(p_.g.after, at) : T{};
  }

 private:
  void attend_chunk(LinearItem at, Interval rows) {
    const std::int64_t count = rows.end - rows.begin;
    p_.read_keys(at, rows, key_, value_, weights_);
    transpose_lanes(value_, p_.value_step, tile, p_.value_step, value_columns_, tile);
    chunk_.write_pairs(count, value_columns_, pairs_);
    decays_.mask(count, pairs_);
    add_product<false>(count,
                       p_.feature_step,
                       Factors<T>{.depth = tile,
                                  .a = pairs_,
                                  .a_step = tile,
                                  .b = key_,
                                  .b_step = p_.feature_step,
                                  .c = dquery_,
                                  .c_step = p_.feature_step},
                       [](std::int64_t, std::int64_t end) {
                         return Interval{0, end};
                       });
    if (decays_.any()) state_.decay(decays_.whole());
    for (std::int64_t r = 0; r < count; ++r) {
      if (decays_.any()) scale_row(value_ + r * p_.value_step, p_.value_step, decays_.to_end(r));
      add_row(key_ + r * p_.feature_step, p_.feature_step, decays_.to_end(r), state_.keys);
    }
    state_.add(count, value_, key_);
  }
  void finish(LinearItem at, Interval rows) {
    const bool reads = p_.call.map != FeatureMap::identity || p_.g.ddecay.defined();
    if (reads) p_.read_features(p_.call.query, at, rows, query_);
    for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
      const T* const row = dquery_ + r * p_.feature_step;
      const T* const query = query_ + r * p_.feature_step;
      if (p_.g.ddecay.defined())
        p_.g.ddecay.template data<T>()[p_.place(p_.g.ddecay, at, rows.begin + r)] =
            dot(query, row, p_.features);
      if (p_.g.dquery.defined())
        write_gradient<In, T>(
            p_,
            row,
            query,
            T{1},
            p_.rows(p_.g.dquery.template data<In>(), p_.g.dquery, at, rows.begin).row(r));
    }
  }

  const GradientProblem<In>& p_;
  TransposedState<In> state_;
  ChunkGradient<In> chunk_;
  ChunkDecays<T> decays_;
  T weights_[tile];
  T* query_;
  T* key_;
  T* value_;
  T* value_columns_;
  T* pairs_;
  T* dquery_;
};

// Backward in time: the gradients of keys and values.
template <typename In>
class KeyGradient {
 public:
  using T = Accumulator<In>;

  KeyGradient(const GradientProblem<In>& p, ScratchArena& carver)
      : p_(p),
        sums_(p, carver),
        chunk_(p, p.g, carver),
        sum_rows_(carver.take<T>(p.feature_step * p.value_step)),
        query_(carver.take<T>(tile * p.feature_step)),
        key_(carver.take<T>(tile * p.feature_step)),
        columns_(carver.take<T>(tile * std::max(p.feature_step, p.value_step))),
        value_(carver.take<T>(tile * p.value_step)),
        scores_(carver.take<T>(tile * tile)),
        pairs_(carver.take<T>(tile * tile)),
        dkey_(carver.take<T>(tile * p.feature_step)),
        dvalue_(carver.take<T>(tile * p.value_step)) {}

  // across_end: see QueryGradient.
  void run(LinearItem at, T across_end) {
    sums_.read(p_.g.after, at);
    ddecay_ = static_cast<double>(across_end);
    transposed_ = false;
    for_chunks_backwards(p_.call.key_parts[static_cast<std::size_t>(at.part)],
                         [&](Interval rows) { run_chunk(at, rows); });
  }
  // Computes the gradient of the state before a part from the queries of the part.
  void run_state(LinearItem at) {
    sums_.read({}, at);
    for_chunks_backwards(p_.call.parts[static_cast<std::size_t>(at.part)], [&](Interval rows) {
      chunk_.read(at, rows);
      p_.read_features(p_.call.query, at, rows, query_);
      if (p_.call.causal) decays_.read(p_, at, rows);
      absorb(rows.end - rows.begin);
    });
    sums_.write(p_.states, at);
  }

 private:
  void run_chunk(LinearItem at, Interval rows) {
    const std::int64_t count = rows.end - rows.begin;
    p_.read_keys(at, rows, key_, value_, weights_);
    if (p_.call.causal) decays_.read(p_, at, rows);
    if (p_.call.causal || !transposed_)
      transpose_lanes(
          sums_.sums, p_.feature_step, p_.value_step, p_.feature_step, sum_rows_, p_.value_step);
    transposed_ = true;
    sums_.multiply(count, value_, dkey_);
    write_full(count,
               p_.value_step,
               Factors<T>{.depth = p_.features,
                          .a = key_,
                          .a_step = p_.feature_step,
                          .b = sum_rows_,
                          .b_step = p_.value_step,
                          .c = dvalue_,
                          .c_step = p_.value_step});
    for (std::int64_t r = 0; r < count; ++r) {
      add_row(sums_.keys, p_.feature_step, T{1}, dkey_ + r * p_.feature_step);
      if (!decays_.any()) continue;
      scale_row(dkey_ + r * p_.feature_step, p_.feature_step, decays_.to_end(r));
      scale_row(dvalue_ + r * p_.value_step, p_.value_step, decays_.to_end(r));
    }
    if (p_.call.causal) attend_chunk(at, rows);
    finish(at, rows);
    if (p_.call.causal) absorb(count);
  }
  void attend_chunk(LinearItem at, Interval rows) {
    const std::int64_t count = rows.end - rows.begin;
    chunk_.read(at, rows);
    p_.read_features(p_.call.query, at, rows, query_);
    transpose_lanes(key_, p_.feature_step, tile, p_.feature_step, columns_, tile);
    product(count,
            Factors<T>{.depth = p_.features,
                       .a = query_,
                       .a_step = p_.feature_step,
                       .b = columns_,
                       .b_step = tile,
                       .c = scores_,
                       .c_step = tile},
            [](std::int64_t, std::int64_t end) {
              return Interval{0, end};
            });
    decays_.mask(count, scores_);
    transpose_lanes(value_, p_.value_step, tile, p_.value_step, columns_, tile);
    chunk_.write_pairs(count, columns_, pairs_);
    decays_.mask(count, pairs_);
    add_by_column(count, p_.feature_step, pairs_, query_, dkey_);
    add_by_column(count, p_.value_step, scores_, chunk_.dn, dvalue_);
  }
  // to += pairs^T from, over the queries that are not before the key.
  void add_by_column(
      std::int64_t count, std::int64_t width, const T* pairs, const T* from, T* to) const {
    add_product<true>(count,
                      width,
                      Factors<T>{.depth = count,
                                 .a = pairs,
                                 .a_step = tile,
                                 .b = from,
                                 .b_step = width,
                                 .c = to,
                                 .c_step = width},
                      [=](std::int64_t begin, std::int64_t) {
                        return Interval{begin, count};
                      });
  }
  // Adds the contribution of a chunk's queries, for earlier keys. With decays, overwrites dn.
  void absorb(std::int64_t count) {
    if (decays_.any()) sums_.decay(decays_.whole());
    for (std::int64_t r = 0; r < count; ++r) {
      const T factor = decays_.from_begin(r);
      if (decays_.any()) scale_row(chunk_.dn + r * p_.value_step, p_.value_step, factor);
      add_row(query_ + r * p_.feature_step, p_.feature_step, factor * chunk_.dd[r], sums_.keys);
    }
    sums_.add(count, chunk_.dn, query_);
  }
  void finish(LinearItem at, Interval rows) {
    const auto& g = p_.g;
    for (std::int64_t r = rows.end - rows.begin - 1; r >= 0; --r) {
      const T* const row = dkey_ + r * p_.feature_step;
      const T* const key = key_ + r * p_.feature_step;
      const std::int64_t place = p_.place(p_.call.key, at, rows.begin + r);
      if (g.ddecay.defined() || g.dlog_weight.defined()) {
        const T along = dot(key, row, p_.features);
        if (g.dlog_weight.defined()) g.dlog_weight.template data<T>()[place] = along;
        if (g.ddecay.defined()) {
          // Sum over pairs of a key before this row and a query from it on.
          T& ddecay = g.ddecay.template data<T>()[place];
          ddecay_ += static_cast<double>(ddecay) - static_cast<double>(along);
          ddecay = static_cast<T>(ddecay_);
        }
      }
      if (g.dkey.defined())
        write_gradient<In, T>(p_,
                              row,
                              key,
                              weights_[r],
                              p_.rows(g.dkey.template data<In>(), g.dkey, at, rows.begin).row(r));
      if (g.dvalue.defined())
        write_row(dvalue_ + r * p_.value_step,
                  p_.values,
                  weights_[r] == 0 ? T{0} : T{1},
                  p_.rows(g.dvalue.template data<In>(), g.dvalue, at, rows.begin).row(r));
    }
  }

  const GradientProblem<In>& p_;
  TransposedState<In> sums_;
  ChunkGradient<In> chunk_;
  ChunkDecays<T> decays_;
  double ddecay_ = 0;  // in double, because of cancellation
  bool transposed_ = false;
  T weights_[tile];
  T* sum_rows_;  // the sums as a factor of keys: [features, value_step]
  T* query_;
  T* key_;
  T* columns_;
  T* value_;
  T* scores_;
  T* pairs_;
  T* dkey_;
  T* dvalue_;
};

template <typename In>
struct BothGradients {
  using T = Accumulator<In>;
  BothGradients(const GradientProblem<In>& problem, ScratchArena& carver)
      : of_queries(problem, carver), of_keys(problem, carver) {}
  void run(LinearItem at) {
    of_queries.run(at);
    of_keys.run(at, of_queries.across_end(at));
  }
  QueryGradient<In> of_queries;
  KeyGradient<In> of_keys;
};
template <typename In>
struct QueriesAlone : QueryGradient<In> {
  using QueryGradient<In>::QueryGradient;
};
template <typename In>
struct KeysAlone : KeyGradient<In> {
  using KeyGradient<In>::KeyGradient;
  void run(LinearItem at) { KeyGradient<In>::run(at, 0); }
};
template <typename In>
struct StateAlone : KeyGradient<In> {
  using KeyGradient<In>::KeyGradient;
  void run(LinearItem at) { KeyGradient<In>::run_state(at); }
};

}  // namespace
}  // namespace tile_attention

void linear_states_backward(Cpu, const LinearAttentionGradient& g, const Tensor& states) {
  check(g);
  with_floating_type(g.forward.query.dtype(), [&]<typename In>(TypeTag<In>) {
    const tile_attention::GradientProblem<In> problem(g, states);
    tile_attention::run_linear<tile_attention::StateAlone<In>>(problem,
                                                               std::ssize(g.forward.parts));
  });
}

void linear_attention_backward(Cpu, const LinearAttentionGradient& g) {
  check(g);
  with_floating_type(g.forward.query.dtype(), [&]<typename In>(TypeTag<In>) {
    using namespace tile_attention;
    const GradientProblem<In> problem(g);
    if (g.forward.causal) {
      run_linear<BothGradients<In>>(problem, std::ssize(g.forward.parts));
      return;
    }
    run_linear<QueriesAlone<In>>(problem, std::ssize(g.forward.parts));
    run_linear<KeysAlone<In>>(problem, std::ssize(g.forward.key_parts));
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
