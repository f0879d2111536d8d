// Gated recurrences on the CPU, in chunks of tokens. The backward pass computes the states before
// the chunks of a segment once more.
#include "framework/kernels/attention/gated_recurrence.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "framework/kernels/attention/cpu/recurrence_chunk.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace recurrence_cpu {
namespace {

template <typename T, Correction kind, bool by_channel>
class Forward {
 public:
  explicit Forward(const Problem<T>& p)
      : p_(p),
        chunk_(p),
        state_(zeros<T>(p.state())),
        value_(zeros<T>(most_tokens * p.value_width)),
        correction_(value_),
        out_(value_) {}

  void run(std::int64_t head) {
    read_state(p_, state_of(p_, p_.call.initial, head), state_.data());
    for (std::int64_t begin = 0; begin < p_.time; begin += chunk_.count) {
      const std::int64_t segment = begin / recurrence_segment;
      if (begin % recurrence_segment == 0 && p_.call.checkpoints.defined())
        write_state(p_, state_.data(), state_of(p_, p_.call.checkpoints, head, segment));
      chunk_.load(head, begin, std::min(p_.time, (segment + 1) * recurrence_segment));
      if (chunk_.starts_document) std::ranges::fill(state_, T{});
      chunk_.load_values(p_.call.value, value_);
      for (std::int64_t i = 0; i < p_.blocks; ++i) {
        chunk_.prefetch(i, begin + chunk_.count, p_.call.value);
        run_block(i);
      }
      chunk_.write_values(out_, p_.call.out);
    }
    if (p_.call.final_state.defined())
      write_state(p_, state_.data(), state_of(p_, p_.call.final_state, head));
  }

 private:
  void run_block(std::int64_t i) {
    const std::int64_t count = chunk_.count, columns = p_.columns(i);
    const Matrix<T> state = p_.block_of(state_.data(), i);
    const Matrix<T> value = chunk_.value_rows(value_, i), out = chunk_.value_rows(out_, i);
    const Matrix<T> correction = chunk_.value_rows(correction_, i);
    chunk_.correct(state, value, correction);
    multiply<false, Store::replace>(count, p_.keys, columns, chunk_.query_state, state, out);
    multiply<false, Store::add>(count, count, columns, chunk_.query_key, value, out);
    if constexpr (kind == Correction::given)
      multiply<false, Store::add>(count, count, columns, chunk_.query_b, correction, out);
    chunk_.advance(state, state, value, correction);
  }

  const Problem<T>& p_;
  Chunk<T, kind, by_channel> chunk_;
  std::vector<T> state_, value_, correction_, out_;
};

template <typename T, Correction kind, bool by_channel>
class Backward {
 public:
  using Gate = Factor<by_channel, T>;
  static constexpr std::int64_t pair = 2 * most_tokens;

  Backward(const Problem<T>& p, const GatedRecurrenceGradient& call)
      : p_(p),
        call_(call),
        chunk_(p),
        gradient_(zeros<T>(p.state())),
        dout_(zeros<T>(most_tokens * p.value_width)),
        dwritten_(dout_),
        dcorrection_(dout_),
        turned_gradients_(zeros<T>(pair * block<T>)),
        turned_rows_(zeros<T>(pair * block<T>)),
        of_state_(zeros<T>(pair * p.key_width)),
        of_end_(zeros<T>(pair * p.key_width)),
        of_whole_(zeros<T>(p.key_width)),
        squares_(zeros<T>(pair * pair)),
        rows_(zeros<T>(8 * most_tokens * p.key_width)),
        of_gates_(zeros<T>(most_tokens * chunk_.gate_width)),
        whole_gates_(zeros<T>(chunk_.gate_width)) {}

  void run(std::int64_t head) {
    head_ = head;
    read_state(p_, state_of(p_, call_.dfinal, head), gradient_.data());
    for (std::int64_t segment = p_.call.segments() - 1; segment >= 0; --segment) {
      run_forward(segment);
      for (std::int64_t i = std::ssize(begins_) - 1; i >= 0; --i)
        run_chunk(static_cast<std::size_t>(i));
    }
    if (call_.dinitial.defined())
      write_state(p_, gradient_.data(), state_of(p_, call_.dinitial, head));
  }

 private:
  // Computes the state before each chunk of a segment, and what its tokens write.
  void run_forward(std::int64_t segment) {
    const std::int64_t first = segment * recurrence_segment;
    const std::int64_t end = std::min(first + recurrence_segment, p_.time);
    begins_.clear();
    allocate_chunk(0);
    read_state(p_, state_of(p_, p_.call.checkpoints, head_, segment), states_[0].data());
    for (std::int64_t begin = first; begin < end; begin += chunk_.count) {
      chunk_.load(head_, begin, end, false);
      const std::size_t index = begins_.size();
      const bool is_last = begin + chunk_.count == end;
      begins_.push_back(begin);
      if (!is_last) allocate_chunk(index + 1);
      if (chunk_.starts_document) std::ranges::fill(states_[index], T{});
      chunk_.load_values(p_.call.value, written_[index]);
      for (std::int64_t i = 0; i < p_.blocks; ++i) {
        // The backward pass continues with the last chunk.
        chunk_.prefetch(i,
                        is_last ? begin : begin + chunk_.count,
                        is_last ? call_.dout : p_.call.value,
                        is_last);
        const Matrix<T> state = p_.block_of(states_[index].data(), i);
        const Matrix<T> written = chunk_.value_rows(written_[index], i);
        const Matrix<T> correction = chunk_.value_rows(corrections_of(index), i);
        chunk_.correct(state, written, correction);
        if (!is_last)
          chunk_.advance(state, p_.block_of(states_[index + 1].data(), i), written, correction);
      }
    }
    end_ = end;
  }
  // Allocates for chunk `index` of a segment.
  void allocate_chunk(std::size_t index) {
    if (states_.size() > index) return;
    states_.push_back(zeros<T>(p_.state()));
    written_.push_back(zeros<T>(most_tokens * p_.value_width));
    if (kind == Correction::given || index == 0) corrections_.push_back(written_.back());
  }

  // Only those of a and b are read later.
  std::vector<T>& corrections_of(std::size_t index) {
    return corrections_[kind == Correction::given ? index : 0];
  }

  void run_chunk(std::size_t index) {
    const std::int64_t end = index + 1 < begins_.size() ? begins_[index + 1] : end_;
    chunk_.load(head_, begins_[index], end);
    chunk_.load_values(call_.dout, dout_);
    for (std::vector<T>* const sum : {&of_state_, &of_end_, &of_whole_, &squares_})
      std::ranges::fill(*sum, T{});
    for (std::int64_t i = 0; i < p_.blocks; ++i) {
      if (index > 0) chunk_.prefetch(i, begins_[index - 1], call_.dout);
      run_block(index, i);
    }
    if (call_.dvalue.defined()) chunk_.write_values(dwritten_, call_.dvalue);
    write_tokens();
    if (chunk_.starts_document) std::ranges::fill(gradient_, T{});
  }

  // Adds what block i contributes to the gradients of the chunk's factors, computes those of its
  // values, and replaces the gradient of the state after the chunk by that of the state before it.
  void run_block(std::size_t index, std::int64_t i) {
    const std::int64_t count = chunk_.count, columns = p_.columns(i), keys = p_.keys;
    const Matrix<T> state = p_.block_of(states_[index].data(), i);
    const Matrix<T> d = p_.block_of(gradient_.data(), i);
    const Matrix<T> dout = chunk_.value_rows(dout_, i);
    const Matrix<T> dwritten = chunk_.value_rows(dwritten_, i);
    const Matrix<T> dcorrection = chunk_.value_rows(dcorrection_, i);
    multiply<false, Store::replace>(count, keys, columns, chunk_.key_end, d, dwritten);
    multiply<true, Store::add>(count, count, columns, chunk_.query_key, dout, dwritten);
    if constexpr (kind == Correction::delta) {
      for (std::int64_t j = count - 1; j >= 0; --j) {
        for (std::int64_t n = j + 1; n < count; ++n)
          add_scaled(chunk_.term_key.row(n)[j], dcorrection.row(n), dwritten.row(j), columns);
        T *const from = dwritten.row(j), *const to = dcorrection.row(j);
#pragma omp simd
        for (std::int64_t v = 0; v < columns; ++v) to[v] = -from[v];
      }
    } else if constexpr (kind == Correction::given) {
      multiply<false, Store::replace>(count, keys, columns, chunk_.b_end, d, dcorrection);
      multiply<true, Store::add>(count, count, columns, chunk_.query_b, dout, dcorrection);
      for (std::int64_t j = count - 1; j >= 0; --j)
        for (std::int64_t n = j + 1; n < count; ++n)
          add_scaled(chunk_.term_b.row(n)[j], dcorrection.row(n), dcorrection.row(j), columns);
      multiply<true, Store::add>(count, count, columns, chunk_.term_key, dcorrection, dwritten);
    }

    // Columns of the gradients of y and c, and of what is written and c: [columns, pair].
    constexpr bool corrects = kind != Correction::none, has_b = kind == Correction::given;
    const Matrix<T> gradients = {turned_gradients_.data(), corrects ? pair : most_tokens};
    const Matrix<T> rows = {turned_rows_.data(), has_b ? pair : most_tokens};
    transpose(count, columns, dout, gradients);
    if constexpr (corrects)
      transpose(count, columns, dcorrection, {gradients.data + most_tokens, gradients.step});
    transpose(count, columns, chunk_.value_rows(written_[index], i), rows);
    if constexpr (has_b)
      transpose(count,
                columns,
                chunk_.value_rows(corrections_of(index), i),
                {rows.data + most_tokens, rows.step});
    const Matrix<T> of_state = {of_state_.data(), pair}, of_end = {of_end_.data(), pair};
    multiply<false, Store::add>(keys, columns, gradients.step, state, gradients, of_state);
    multiply<false, Store::add>(keys, columns, rows.step, d, rows, of_end);
    const Matrix<T> squares = {squares_.data(), pair};
    multiply<false, Store::add>(count, columns, rows.step, dout, rows, squares);
    if constexpr (corrects)
      multiply<false, Store::add>(
          count, columns, rows.step, dcorrection, rows, {squares.row(most_tokens), pair});
    if (call_.dlog_decay.defined()) add_row_products(state, d);

    const OuterProducts<T> own = {count, chunk_.query_state, dout};
    if constexpr (corrects)
      chunk_.update(d, d, std::array{own, OuterProducts<T>{count, chunk_.term_state, dcorrection}});
    else
      chunk_.update(d, d, std::array{own});
  }
  // Adds the gradient of `whole`.
  void add_row_products(const Matrix<T>& state, const Matrix<T>& d) {
    const Tag<T> tag;
    auto sum = hn::Zero(tag);
    const auto add_sum = [&](std::int64_t c) HWY_ATTR {
      of_whole_[static_cast<std::size_t>(c)] += hn::GetLane(hn::SumOfLanes(tag, sum));
      sum = hn::Zero(tag);
    };
    for (std::int64_t c = 0; c < p_.keys; ++c) {
      for (std::int64_t v = 0; v < state.step; v += lanes<T>)
        sum = hn::MulAdd(hn::LoadU(tag, state.row(c) + v), hn::LoadU(tag, d.row(c) + v), sum);
      if constexpr (by_channel) add_sum(c);
    }
    if constexpr (!by_channel) add_sum(0);
  }

  Matrix<T> row_gradients(std::int64_t part) {
    return {rows_.data() + part * most_tokens * p_.key_width, p_.key_width};
  }

  // Writes the gradients of the tokens from those of the chunk's factors.
  void write_tokens() {
    const std::int64_t count = chunk_.count, width = p_.key_width, keys = p_.keys;
    const Matrix<T> squares = {squares_.data(), pair};
    // Only earlier tokens count, and for queries the token itself.
    for (std::int64_t i = 0; i < count; ++i)
      for (const std::int64_t column : {std::int64_t{0}, most_tokens}) {
        std::fill(squares.row(i) + column + i + 1, squares.row(i) + column + most_tokens, T{});
        T* const of_term = squares.row(most_tokens + i) + column;
        std::fill(of_term + i, of_term + most_tokens, T{});
      }
    const Matrix<T> dquery = row_gradients(0), dterm = row_gradients(1);
    const Matrix<T> dkey = row_gradients(2), db = row_gradients(3);
    const Matrix<T> query_key = squares, query_b = {squares.data + most_tokens, pair};
    const Matrix<T> term_key = {squares.row(most_tokens), pair};
    const Matrix<T> term_b = {squares.row(most_tokens) + most_tokens, pair};
    multiply<false, Store::replace>(count, count, width, query_key, chunk_.key, dquery);
    multiply<true, Store::replace>(count, count, width, query_key, chunk_.query, dkey);
    if constexpr (kind != Correction::none) {
      multiply<false, Store::replace>(count, count, width, term_key, chunk_.key, dterm);
      multiply<true, Store::add>(count, count, width, term_key, chunk_.term, dkey);
    }
    if constexpr (kind == Correction::given) {
      multiply<false, Store::add>(count, count, width, query_b, chunk_.b_term, dquery);
      multiply<false, Store::add>(count, count, width, term_b, chunk_.b_term, dterm);
      multiply<true, Store::replace>(count, count, width, query_b, chunk_.query, db);
      multiply<true, Store::add>(count, count, width, term_b, chunk_.term, db);
    }
    const auto turn = [&](std::vector<T>& from, std::int64_t part, std::int64_t to) {
      transpose(keys, most_tokens, {from.data() + part * most_tokens, pair}, row_gradients(to));
    };
    turn(of_state_, 0, 4);
    if constexpr (kind != Correction::none) turn(of_state_, 1, 5);
    turn(of_end_, 0, 6);
    if constexpr (kind == Correction::given) turn(of_end_, 1, 7);
    std::ranges::fill(of_gates_, T{});
    std::ranges::fill(whole_gates_, T{});
    for (std::int64_t i = 0; i < count; ++i) write_token(i);
    if (call_.dlog_decay.defined()) write_gates();
  }

  T* gates(std::int64_t i) { return of_gates_.data() + i * chunk_.gate_width; }

  // Writes the gradients of a token, and adds those of the sums of log gates.
  void write_token(std::int64_t i) {
    const std::int64_t keys = p_.keys, at = chunk_.place(i);
    T* const dquery = row_gradients(0).row(i);
    T* const dkey = row_gradients(2).row(i);
    const auto write = [&](const Tensor& to, const T* row) {
      if (to.defined()) Elements<T>(to).write(at * keys, keys, row);
    };
    const T* const factor = chunk_.since_first.row(i);
    add_state_gradient(dquery, chunk_.query.row(i), factor, row_gradients(4).row(i), gates(i));
    const T scale = static_cast<T>(p_.call.scale);
    for (std::int64_t c = 0; c < keys; ++c) dquery[c] *= scale;
    write(call_.dquery, dquery);
    add_end_gradient(dkey, chunk_.key.row(i), chunk_.key_end.row(i), i, row_gradients(6).row(i));
    T* const dterm = row_gradients(1).row(i);
    T* const of_state = row_gradients(5).row(i);
    if constexpr (kind == Correction::delta) {
      add_state_gradient(dterm, chunk_.term.row(i), factor, of_state, gates(i));
      const T step = chunk_.beta(i);
      const T* const k = chunk_.read_key(i);
      T dstep = 0;
#pragma omp simd reduction(+ : dstep)
      for (std::int64_t c = 0; c < keys; ++c) {
        dstep += dkey[c] * k[c];
        dkey[c] = step * dkey[c] + dterm[c];
      }
      if (call_.dbeta.defined()) call_.dbeta.data<T>()[at] = dstep;
    } else if constexpr (kind == Correction::given) {
      if (i > 0)
        add_state_gradient(
            dterm, chunk_.term.row(i), chunk_.since_first.row(i - 1), of_state, gates(i - 1));
      else
        std::copy_n(of_state, keys, dterm);
      T* const db = row_gradients(3).row(i);
      add_end_gradient(db, chunk_.b_term.row(i), chunk_.b_end.row(i), i, row_gradients(7).row(i));
      write(call_.da, dterm);
      write(call_.db, db);
    }
    write(call_.dkey, dkey);
  }
  // Replaces the gradient d of row = factor x by that of x, which also is in the row times the
  // gates of the first token, with gradient of_state. Adds the gradient of the sum of log gates.
  void add_state_gradient(T* d, const T* row, const T* factor, const T* of_state, T* sums) const {
    const Gate first(chunk_.gate.row(0)), by(factor);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < p_.keys; ++c) {
      const T whole = d[c] + first[c] * of_state[c];
      if constexpr (by_channel)
        sums[c] += row[c] * whole;
      else
        sum += row[c] * whole;
      d[c] = by[c] * whole;
    }
    if constexpr (!by_channel) *sums += sum;
  }
  // As above, of row = x / since_first and row_end = x until_end.
  void add_end_gradient(T* d, const T* row, const T* row_end, std::int64_t i, const T* of_end) {
    const Gate over(chunk_.inverse.row(i)), end(chunk_.until_end.row(i));
    T *const own = gates(i), *const last = whole_gates_.data();
    T own_sum = 0, last_sum = 0;
#pragma omp simd reduction(+ : own_sum, last_sum)
    for (std::int64_t c = 0; c < p_.keys; ++c) {
      const T of_last = row_end[c] * of_end[c], both = row[c] * d[c] + of_last;
      if constexpr (by_channel) {
        own[c] -= both;
        last[c] += of_last;
      } else {
        own_sum += both;
        last_sum += of_last;
      }
      d[c] = d[c] * over[c] + end[c] * of_end[c];
    }
    if constexpr (!by_channel) {
      *own -= own_sum;
      *last += last_sum;
    }
  }

  // The gradient of a log gate is the sum over those of the sums that have it as a term.
  void write_gates() {
    const std::int64_t size = chunk_.gates(), count = chunk_.count;
    T* const to = call_.dlog_decay.data<T>();
    T* const last = gates(count - 1);
    const T *const whole = chunk_.whole, *const of_whole = of_whole_.data();
    const T* const of_end = whole_gates_.data();
#pragma omp simd
    for (std::int64_t c = 0; c < size; ++c) last[c] += of_end[c] + whole[c] * of_whole[c];
    for (std::int64_t i = count - 1; i >= 0; --i) {
      T* const d = gates(i);
      if (i + 1 < count) {
        const T* const after = gates(i + 1);
#pragma omp simd
        for (std::int64_t c = 0; c < size; ++c) d[c] += after[c];
      }
      // Nothing before a document reaches it.
      if (i == 0 && chunk_.starts_document) std::fill_n(d, size, T{});
      std::copy_n(d, size, to + chunk_.place(i) * size);
    }
  }

  const Problem<T>& p_;
  const GatedRecurrenceGradient& call_;
  Chunk<T, kind, by_channel> chunk_;
  std::int64_t head_ = 0, end_ = 0;
  std::vector<T> gradient_;  // in blocks
  // The chunks of a segment: the first token, the state before it, what is written, corrections.
  std::vector<std::int64_t> begins_;
  std::vector<std::vector<T>> states_, written_, corrections_;
  std::vector<T> dout_, dwritten_, dcorrection_;   // rows of values
  std::vector<T> turned_gradients_, turned_rows_;  // of a block, by column
  // Gradients: by key and token, of query_state and term_state, and of key_end and b_end; of whole;
  // of the four products of tokens, in one matrix.
  std::vector<T> of_state_, of_end_, of_whole_, squares_;
  std::vector<T> rows_;  // of query, term, key, b_term, query_state, term_state, key_end and b_end
  std::vector<T> of_gates_, whole_gates_;  // of the sums of log gates; of b_n by key_end and b_end
};

// Calls work.run(head) for every head of every batch row, with one `work` per thread.
template <typename Make>
void for_heads(std::int64_t heads, const Make& make) {
#pragma omp parallel if (heads > 1)
  {
    auto work = make();
#pragma omp for schedule(dynamic)
    for (std::int64_t head = 0; head < heads; ++head) work.run(head);
  }
}

// Calls f(TypeTag<T>, kind, by_channel) for a call, where T is its accumulator and kind() its
// correction.
template <typename F>
void dispatch(const GatedRecurrence& call, const F& f) {
  const auto with_kind = [&](auto tag, auto kind) {
    if (call.has_channel_gates())
      f(tag, kind, std::true_type());
    else
      f(tag, kind, std::false_type());
  };
  with_accumulator_type(accumulator_of(call.query.dtype()), [&](auto tag) {
    if (call.beta.defined())
      with_kind(tag, std::integral_constant<Correction, Correction::delta>());
    else if (call.a.defined())
      with_kind(tag, std::integral_constant<Correction, Correction::given>());
    else
      with_kind(tag, std::integral_constant<Correction, Correction::none>());
  });
}

}  // namespace
}  // namespace recurrence_cpu

void gated_recurrence(Cpu cpu, const GatedRecurrence& call) {
  using namespace recurrence_cpu;
  check_forward(call);
  if (cpu.state->is_meta()) return;
  dispatch(call, [&]<typename T>(TypeTag<T>, auto kind, auto by_channel) {
    const Problem<T> p(call);
    for_heads(p.batch * p.heads, [&] { return Forward<T, kind(), by_channel()>(p); });
  });
}

void gated_recurrence_backward(Cpu cpu, const GatedRecurrenceGradient& call) {
  using namespace recurrence_cpu;
  check(call);
  if (cpu.state->is_meta()) return;
  dispatch(call.forward, [&]<typename T>(TypeTag<T>, auto kind, auto by_channel) {
    const Problem<T> p(call.forward);
    for_heads(p.batch * p.heads, [&] { return Backward<T, kind(), by_channel()>(p, call); });
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
