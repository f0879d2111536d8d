#include "framework/kernels/attention/linear_attention.h"

#include "framework/kernels/attention/cpu/linear_chunk.h"
#include "framework/kernels/cpu/loops.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace tile_attention {
namespace {

// The state of a head as a factor: [features, value_step], and the sum of the keys.
template <typename In>
class HeadState {
 public:
  using T = Accumulator<In>;

  HeadState(const LinearProblem<In>& p, ScratchArena& carver)
      : p_(p),
        sums(carver.take<T>(p.feature_step * p.value_step)),
        keys(carver.take<T>(p.feature_step)) {}

  void read(const Tensor& states, LinearItem at) const {
    std::fill_n(sums, p_.feature_step * p_.value_step, T{});
    std::fill_n(keys, p_.feature_step, T{});
    if (!states.defined()) return;
    const T* from = p_.state(states, at);
    for (std::int64_t f = 0; f < p_.features; ++f) {
      std::copy_n(from, p_.values, sums + f * p_.value_step);
      keys[f] = from[p_.values];
      from += p_.values + 1;
    }
  }
  void write(const Tensor& states, LinearItem at) const {
    T* to = p_.state(states, at);
    for (std::int64_t f = 0; f < p_.features; ++f) {
      std::copy_n(sums + f * p_.value_step, p_.values, to);
      to[p_.values] = keys[f];
      to += p_.values + 1;
    }
  }
  // Adds a chunk's contribution after the decay of the previous state. With decays, overwrites
  // value.
  void absorb(std::int64_t rows, const ChunkDecays<T>& decays, const T* key, T* value) const {
    if (decays.any()) {
      scale_row(sums, p_.feature_step * p_.value_step, decays.whole());
      scale_row(keys, p_.feature_step, decays.whole());
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      if (decays.any()) scale_row(value + r * p_.value_step, p_.value_step, decays.to_end(r));
      add_row(key + r * p_.feature_step, p_.feature_step, decays.to_end(r), keys);
    }
    add_full<true>(p_.features,
                   p_.value_step,
                   Factors<T>{.depth = rows,
                              .a = key,
                              .a_step = p_.feature_step,
                              .b = value,
                              .b_step = p_.value_step,
                              .c = sums,
                              .c_step = p_.value_step});
  }

 private:
  const LinearProblem<In>& p_;

 public:
  T* const sums;
  T* const keys;
};

// Computes the state contribution of a part.
template <typename In>
class PartState {
 public:
  using T = Accumulator<In>;

  PartState(const LinearProblem<In>& p, ScratchArena& carver)
      : p_(p),
        state_(p, carver),
        key_(carver.take<T>(tile * p.feature_step)),
        value_(carver.take<T>(tile * p.value_step)) {}

  void run(LinearItem at, const Range& part, const Tensor& states, const Tensor& sums) {
    state_.read({}, at);
    T decayed = 0;
    for_chunks(part, [&](Interval rows) {
      p_.read_keys(at, rows, key_, value_, weights_);
      decays_.read(p_, at, rows);
      state_.absorb(rows.end - rows.begin, decays_, key_, value_);
      if (sums.defined()) decayed += decays_.sum();
    });
    state_.write(states, at);
    if (sums.defined()) sums.data<T>()[(at.part * p_.batch + at.b) * p_.heads + at.h] = decayed;
  }

 private:
  const LinearProblem<In>& p_;
  HeadState<In> state_;
  ChunkDecays<T> decays_;
  T weights_[tile];
  T* key_;
  T* value_;
};

// Computes the outputs of a part.
template <typename In>
class PartOutput {
 public:
  using T = Accumulator<In>;

  PartOutput(const LinearProblem<In>& p, ScratchArena& carver)
      : p_(p),
        state_(p, carver),
        query_(carver.take<T>(tile * p.feature_step)),
        key_(carver.take<T>(tile * p.feature_step)),
        key_columns_(carver.take<T>(tile * p.feature_step)),
        value_(carver.take<T>(tile * p.value_step)),
        out_(carver.take<T>(tile * p.value_step)),
        scores_(carver.take<T>(tile * tile)) {}

  void run(LinearItem at) {
    state_.read(p_.call.before, at);
    for_chunks(p_.call.parts[static_cast<std::size_t>(at.part)], [&](Interval rows) {
      p_.read_features(p_.call.query, at, rows, query_);
      const std::int64_t count = rows.end - rows.begin;
      if (p_.call.causal) decays_.read(p_, at, rows);
      attend_state(count);
      if (p_.call.causal) {
        p_.read_keys(at, rows, key_, value_, weights_);
        attend_chunk(count);
      }
      finish(at, rows);
      if (p_.call.causal) state_.absorb(count, decays_, key_, value_);
    });
  }

 private:
  void attend_state(std::int64_t count) {
    write_full(count,
               p_.value_step,
               Factors<T>{.depth = p_.features,
                          .a = query_,
                          .a_step = p_.feature_step,
                          .b = state_.sums,
                          .b_step = p_.value_step,
                          .c = out_,
                          .c_step = p_.value_step});
    for (std::int64_t r = 0; r < count; ++r) {
      sums_[r] = dot(query_ + r * p_.feature_step, state_.keys, p_.feature_step);
      if (!decays_.any()) continue;
      scale_row(out_ + r * p_.value_step, p_.value_step, decays_.from_begin(r));
      sums_[r] *= decays_.from_begin(r);
    }
  }
  void attend_chunk(std::int64_t count) {
    transpose_lanes(key_, p_.feature_step, tile, p_.feature_step, key_columns_, tile);
    product(count,
            Factors<T>{.depth = p_.features,
                       .a = query_,
                       .a_step = p_.feature_step,
                       .b = key_columns_,
                       .b_step = tile,
                       .c = scores_,
                       .c_step = tile},
            [](std::int64_t, std::int64_t end) {
              return Interval{0, end};
            });
    decays_.mask(count, scores_);
    for (std::int64_t r = 0; r < count; ++r) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < tile; ++j) sum += scores_[r * tile + j];
      sums_[r] += sum;
    }
    add_product<false>(count,
                       p_.value_step,
                       Factors<T>{.depth = tile,
                                  .a = scores_,
                                  .a_step = tile,
                                  .b = value_,
                                  .b_step = p_.value_step,
                                  .c = out_,
                                  .c_step = p_.value_step},
                       [](std::int64_t, std::int64_t end) {
                         return Interval{0, end};
                       });
  }
  void finish(LinearItem at, Interval rows) {
    const auto to = p_.rows(p_.call.out.template data<In>(), p_.call.out, at, rows.begin);
    const T epsilon = static_cast<T>(p_.call.epsilon);
    for (std::int64_t r = 0; r < rows.end - rows.begin; ++r) {
      T divisor = sums_[r];
      if (p_.call.divisor == Divisor::none)
        divisor = 1;
      else if (p_.call.divisor == Divisor::sum)
        divisor += epsilon;
      else if (std::abs(divisor) < epsilon)
        divisor = divisor < 0 ? -epsilon : epsilon;
      write_row(out_ + r * p_.value_step, p_.values, T{1} / divisor, to.row(r));
      if (p_.call.divisor != Divisor::none)
        p_.call.divisors.template data<T>()[p_.place(p_.call.divisors, at, rows.begin + r)] =
            divisor;
    }
  }

  const LinearProblem<In>& p_;
  HeadState<In> state_;
  ChunkDecays<T> decays_;
  T sums_[tile];
  T weights_[tile];
  T* query_;
  T* key_;
  T* key_columns_;
  T* value_;
  T* out_;
  T* scores_;
};

template <typename In>
struct StateWorker {
  struct Problem : LinearProblem<In> {
    const Tensor& states;
    const Tensor& decays;
    Problem(const LinearAttention& attention, const Tensor& to, const Tensor& sums)
        : LinearProblem<In>(attention), states(to), decays(sums) {}
  };
  StateWorker(const Problem& problem, ScratchArena& carver) : p(problem), part(problem, carver) {}
  void run(LinearItem at) {
    part.run(at, p.call.key_parts[static_cast<std::size_t>(at.part)], p.states, p.decays);
  }
  const Problem& p;
  PartState<In> part;
};

}  // namespace
}  // namespace tile_attention

void linear_states(Cpu, const LinearAttention& call, const Tensor& states, const Tensor& decays) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename In>(TypeTag<In>) {
    using Worker = tile_attention::StateWorker<In>;
    const typename Worker::Problem problem(call, states, decays);
    tile_attention::run_linear<Worker>(problem, std::ssize(call.key_parts));
  });
}

void linear_attention(Cpu, const LinearAttention& call) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename In>(TypeTag<In>) {
    const tile_attention::LinearProblem<In> problem(call);
    tile_attention::run_linear<tile_attention::PartOutput<In>>(problem, std::ssize(call.parts));
  });
}

void scan_states(Cpu, const StateScan& scan) {
  check(scan);
  const Shape& shape = scan.states.shape();
  const std::int64_t heads = shape[1] * shape[2], elements = shape[3] * shape[4];
  with_floating_type(scan.states.dtype(), [&]<typename In>(TypeTag<In>) {
    using T = Accumulator<In>;
    for_rows(heads, elements * shape[0], [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> sums(static_cast<std::size_t>(elements));
      for (std::int64_t head = begin; head < end; ++head) {
        if (scan.first.defined())
          std::copy_n(scan.first.data<T>() + head * elements, elements, sums.begin());
        else
          std::ranges::fill(sums, T{});
        for (const std::int64_t part : scan.order) {
          const std::int64_t place = part * heads + head;
          const T factor =
              scan.decays.defined() ? longspan::fast_exp(scan.decays.data<T>()[place]) : T{1};
          T* const state = scan.states.data<T>() + place * elements;
          T* const sum = sums.data();
#pragma omp simd
          for (std::int64_t i = 0; i < elements; ++i) {
            const T own = state[i];
            state[i] = sum[i];
            sum[i] = sum[i] * factor + own;
          }
        }
        if (scan.last.defined()) std::ranges::copy(sums, scan.last.data<T>() + head * elements);
      }
    });
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
