// Distribution of the backward pass over threads, and reduction of its partial sums.
#include "framework/kernels/attention/cpu/backward.h"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/key_gradients.h"

namespace longspan {
namespace tile_attention {
namespace {

// An item is one head, batch row and run of key blocks, numbered in that order. The items of a head
// are consecutive, so that a thread needs few sums for each head. With several runs, each pair of
// head and batch row has one dquery for each run; they are added in order.
//
// If all batch rows contribute to one gradient of given scores, one thread processes a run of key
// blocks for all of them. Items are then ordered by head, run and batch row.
struct Division {
  std::int64_t key_tiles;
  std::int64_t blocks;
  std::int64_t runs = 1;
  std::int64_t items = 0;
  std::int64_t threads = 1;
  std::int64_t together = 1;        // items that must run on one thread
  std::vector<std::int64_t> begin;  // [threads + 1]: the items of each thread, in order

  template <typename In>
  Division(const Problem<In>& p, std::int64_t most)
      : key_tiles(p.key_tiles()),
        blocks((key_tiles + block_tiles - 1) / block_tiles),
        together(p.given.row.defined() ? std::max<std::int64_t>(1, p.batch) : 1) {
    const std::int64_t pairs = p.batch * p.heads / together;
    // As few runs as keep the threads busy, because each costs another dquery.
    const auto idle = [&](std::int64_t count) {
      const std::int64_t rounds = (pairs * count + most - 1) / most;
      return static_cast<double>(rounds * most) / static_cast<double>(pairs * count);
    };
    const std::int64_t limit = std::min<std::int64_t>(blocks, 16);
    while (runs < limit && pairs > 0 && idle(runs) > 1.2) ++runs;
    items = p.batch * p.heads * runs;
    threads = std::clamp<std::int64_t>(items / together, 1, most);
    std::vector<double> costs;  // of each group of items that must run on one thread
    const std::int64_t rows = p.batch / together;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      if (h > 0 && &p.plan(h) == &p.plan(h - 1)) {
        const std::vector<double> as_before(costs.end() - rows * runs, costs.end());
        costs.insert(costs.end(), as_before.begin(), as_before.end());
        continue;
      }
      for (std::int64_t b = 0; b < rows; ++b) {
        const bool as_before = b > 0 && p.max_lookback == nullptr;
        const std::vector<double> of_row =
            as_before ? std::vector<double>(costs.end() - runs, costs.end()) : costs_of(p, h, b);
        costs.insert(costs.end(), of_row.begin(), of_row.end());
      }
    }
    divide(costs);
  }

  // The item at an index of the order.
  std::int64_t item_at(std::int64_t place) const {
    const std::int64_t head = place / (runs * together), within = place % (runs * together);
    return (head * together + within % together) * runs + within / together;
  }

  Interval key_blocks(std::int64_t run) const {
    return {blocks * run / runs, blocks * (run + 1) / runs};
  }

 private:
  // Cost of each run of key blocks, in visited tiles.
  template <typename In>
  std::vector<double> costs_of(const Problem<In>& p, std::int64_t h, std::int64_t b) const {
    std::vector<double> costs;
    for (std::int64_t run = 0; run < runs; ++run) {
      double cost = 1;
      const Interval range = key_blocks(run);
      for (std::int64_t t = range.begin * block_tiles;
           t < std::min(range.end * block_tiles, key_tiles);
           ++t) {
        const std::int64_t end = p.end_query_tile(b, p.key_tile(t).end);
        for (const TileRun& tiles : p.plan(h).query_runs(t))
          cost += static_cast<double>(
              std::max<std::int64_t>(0, std::min<std::int64_t>(tiles.end, end) - tiles.begin));
      }
      costs.push_back(cost);
    }
    return costs;
  }

  // Splits into contiguous ranges of equal cost.
  void divide(const std::vector<double>& costs) {
    const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
    double before = 0;
    std::int64_t thread = 0;
    begin.assign(static_cast<std::size_t>(threads) + 1, items);
    begin[0] = 0;
    for (std::int64_t group = 0; group < items / together; ++group) {
      const double cost = costs[static_cast<std::size_t>(group)];
      const auto owner =
          static_cast<std::int64_t>((before + cost / 2) / total * static_cast<double>(threads));
      while (thread < std::min(owner, threads - 1))
        begin[static_cast<std::size_t>(++thread)] = group * together;
      before += cost;
    }
  }
};

template <typename In>
struct Run {
  using T = Accumulator<In>;

  Run(const AttentionGradient& gradient,
      const ExternalScores& given,
      const ExternalScores& external_grads)
      : g(gradient),
        dgiven(external_grads),
        p(gradient.forward, given),
        biases(p),
        division(p, useful_threads(p)) {
    scratch_bytes = Backward<In>(p, biases, g, ScratchArena(nullptr)).bytes();
    const Device& device = g.dquery.device();
    scratch =
        Tensor::empty({division.threads, scratch_bytes}, DType::u8, device, MemoryTag::workspace);
    const std::int64_t rows = division.runs > 1 ? division.items : division.threads;
    dquery = Tensor::empty(
        {rows, p.time, p.dim_padded}, DTypeOf<T>::value, device, MemoryTag::workspace);
    if (p.call.span)
      dspan =
          Tensor::zeros({division.items, p.time}, DTypeOf<T>::value, device, MemoryTag::workspace);
    if (given.low.defined()) {
      factors = given.low.shape()[3] + given.high.shape()[3];
      dfactors = Tensor::zeros(
          {division.items, p.time, factors}, DTypeOf<T>::value, device, MemoryTag::workspace);
    }
    ScratchArena measure(nullptr);
    TermSums<T>(p, measure);
    slot_bytes = measure.used();
    if (slot_bytes == 0) return;
    // One slot for each head that a thread works on.
    for (std::int64_t t = 0; t < division.threads; ++t) {
      first_slot.push_back(slots);
      const Interval heads = heads_of(t);
      slots += heads.end - heads.begin;
    }
    slots_memory = Tensor::zeros({slots, slot_bytes}, DType::u8, device, MemoryTag::workspace);
  }

  Interval heads_of(std::int64_t thread) const {
    const std::int64_t begin = division.begin[static_cast<std::size_t>(thread)];
    const std::int64_t end = division.begin[static_cast<std::size_t>(thread) + 1];
    const std::int64_t per_head = p.batch * division.runs;
    return begin == end ? Interval{0, 0} : Interval{begin / per_head, (end - 1) / per_head + 1};
  }
  TermSums<T> slot(std::int64_t index) const {
    ScratchArena carver(slots_memory.bytes() + index * slot_bytes);
    return TermSums<T>(p, carver);
  }

  void work(std::int64_t thread) {
    Backward<In> backward(p, biases, g, ScratchArena(scratch.bytes() + thread * scratch_bytes));
    const Interval heads = heads_of(thread);
    for (std::int64_t place = division.begin[static_cast<std::size_t>(thread)];
         place < division.begin[static_cast<std::size_t>(thread) + 1];
         ++place) {
      const std::int64_t item = division.item_at(place);
      const std::int64_t pair = item / division.runs;
      const std::int64_t h = pair / p.batch;
      const std::int64_t b = pair % p.batch;
      PairSums<T> sums;
      sums.dquery =
          dquery.template data<T>() + (division.runs > 1 ? item : thread) * p.time * p.dim_padded;
      std::fill_n(sums.dquery, p.time * p.dim_padded, T{0});
      if (p.call.span) sums.dspan = dspan.template data<T>() + item * p.time;
      if (p.given.row.defined()) sums.drow = dgiven.row.template data<T>();
      if (factors > 0) sums.dfactors = dfactors.template data<T>() + item * p.time * factors;
      if (slot_bytes > 0)
        sums.terms = slot(first_slot[static_cast<std::size_t>(thread)] + h - heads.begin);
      backward.run(b, h, division.key_blocks(item % division.runs), sums);
      if (division.runs == 1) write_dquery(sums.dquery, b, h, 0, p.time);
    }
  }

  void write_dquery(
      const T* sums, std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
    with_gradient<In>(g.dquery, [&](auto* data) {
      const auto target = p.rows(data, b, p.time, h, p.dim, 0);
      for (std::int64_t i = begin; i < end; ++i)
        write_row(sums + i * p.dim_padded, p.dim, p.scale, target.row(i), g.add);
    });
  }

  // Adds the runs of query tile `index` of all pairs, in order.
  void gather_dquery(std::int64_t index) {
    const std::int64_t tiles = p.query_tiles();
    const std::int64_t pair = index / tiles;
    const Interval rows = p.query_tile(index % tiles);
    const std::int64_t run_size = p.time * p.dim_padded;
    T* first = dquery.template data<T>() + pair * division.runs * run_size;
    for (std::int64_t run = 1; run < division.runs; ++run)
      for (std::int64_t e = rows.begin * p.dim_padded; e < rows.end * p.dim_padded; ++e)
        first[e] += first[run * run_size + e];
    write_dquery(first, pair % p.batch, pair / p.batch, rows.begin, rows.end);
  }

  // Adds the slots of all heads, in thread order, for a range of rows of a table.
  void gather_table(const DistanceTable<const In>& table,
                    T* TermSums<T>::*rows,
                    T factor,
                    const Tensor& gradient,
                    Interval range) {
    const auto to =
        table.clipped ? DistanceTable<T>::shared(gradient) : DistanceTable<T>::by_head(gradient);
    const std::int64_t step = padded<Element<In>>(table.width);
    for (std::int64_t h = 0; h < p.heads; ++h)
      for_slots(h, [&](const TermSums<T>& sums) {
        for (std::int64_t d = range.begin; d < range.end; ++d) {
          // Contributions beyond a clipped end belong to the end; an unclipped table has none.
          const bool low = table.clipped && d == 0;
          const bool high = table.clipped && d == table.count() - 1;
          T* row = to.row(h, table.low + d);
          for (std::int64_t i = low ? 0 : d + distance_margin;
               i <= (high ? table.count() - 1 + 2 * distance_margin : d + distance_margin);
               ++i)
            for (std::int64_t c = 0; c < table.width; ++c)
              row[c] += factor * (sums.*rows)[i * step + c];
        }
      });
  }

  // The gradient of z: sums over the runs of key blocks, and over the queries or batch rows that
  // share a z.
  void gather_span() {
    const bool by_token = g.dspan.shape().dimensions() == 3;
    const T over_ramp = static_cast<T>(1 / p.call.span->ramp);
    for (std::int64_t item = 0; item < division.items; ++item) {
      const std::int64_t h = item / division.runs / p.batch;
      const std::int64_t b = item / division.runs % p.batch;
      const T* from = dspan.template data<T>() + item * p.time;
      T* to = g.dspan.template data<T>();
      for (std::int64_t i = 0; i < p.time; ++i)
        to[by_token ? (b * p.time + i) * p.heads + h : h] += over_ramp * from[i];
    }
  }

  // Adds the runs of key blocks of a pair of head and batch row to the gradients of given factors.
  void gather_factors(std::int64_t pair) {
    const std::int64_t h = pair / p.batch, b = pair % p.batch;
    const std::int64_t low = p.given.low.shape()[3], high = p.given.high.shape()[3];
    for (std::int64_t run = 0; run < division.runs; ++run)
      for (std::int64_t i = 0; i < p.time; ++i) {
        const T* from =
            dfactors.template data<T>() + ((pair * division.runs + run) * p.time + i) * factors;
        const std::int64_t row = (b * p.time + i) * p.heads + h;
        write_row(from, low, T{1}, dgiven.low.template data<T>() + row * low, true);
        write_row(from + low, high, T{1}, dgiven.high.template data<T>() + row * high, true);
      }
  }

  // Adds the slots of a head to the gradient of its biases by relative position.
  void gather_distance_bias(std::int64_t h) {
    const std::int64_t distances = g.ddistance_bias.shape()[1];
    T* to = g.ddistance_bias.template data<T>() + h * distances;
    for_slots(h, [&](const TermSums<T>& sums) {
      for (std::int64_t d = 0; d < distances; ++d) to[d] += sums.bias[d];
    });
  }

  void gather_biases(std::int64_t h) {
    T* dcontent = g.dcontent_bias.template data<T>() + h * p.dim;
    T* dposition = g.dposition_bias.template data<T>() + h * p.dim;
    const In* position_key = p.call.relative->position_key.template data<In>();
    const std::int64_t distances = p.key_table.count();
    std::vector<T> by_distance(static_cast<std::size_t>(distances), T{0});
    for_slots(h, [&](const TermSums<T>& sums) {
      for (std::int64_t c = 0; c < p.dim; ++c) dcontent[c] += p.scale * sums.content_bias[c];
      for (std::int64_t d = 0; d < distances; ++d)
        by_distance[static_cast<std::size_t>(d)] += sums.score[d + distance_margin];
    });
    std::vector<T> sum(static_cast<std::size_t>(p.dim), T{0});
    for (std::int64_t d = 0; d < distances; ++d)
      for (std::int64_t c = 0; c < p.dim; ++c)
        sum[static_cast<std::size_t>(c)] +=
            by_distance[static_cast<std::size_t>(d)] *
            static_cast<T>(position_key[(d * p.heads + h) * p.dim + c]);
    for (std::int64_t c = 0; c < p.dim; ++c)
      dposition[c] += p.scale * sum[static_cast<std::size_t>(c)];
  }

  template <typename F>
  void for_slots(std::int64_t h, const F& f) {
    for (std::int64_t t = 0; t < division.threads; ++t) {
      const Interval heads = heads_of(t);
      if (heads.begin <= h && h < heads.end)
        f(slot(first_slot[static_cast<std::size_t>(t)] + h - heads.begin));
    }
  }

  const AttentionGradient& g;
  const ExternalScores& dgiven;
  Problem<In> p;
  QueryBiases<In> biases;
  Division division;
  std::int64_t scratch_bytes = 0;
  std::int64_t slot_bytes = 0;
  std::int64_t slots = 0;
  std::vector<std::int64_t> first_slot;
  Tensor scratch;
  Tensor dquery;
  Tensor dspan;
  std::int64_t factors = 0;  // factors of a query in its given scores
  Tensor dfactors;           // [items, time, factors]
  Tensor slots_memory;
};

template <typename In>
void run_backward(const AttentionGradient& g,
                  const ExternalScores& given,
                  const ExternalScores& external_grads) {
  Run<In> run(g, given, external_grads);
  if (DeviceState& device = g.dquery.device().state(); device.is_meta()) {
    count_backward(device, g.forward, given);
    return;
  }
  const auto& p = run.p;
  const std::int64_t query_tiles = run.division.runs > 1 ? p.batch * p.heads * p.query_tiles() : 0;
  const auto pieces = [](const DistanceTable<const In>& table) {
    return table ? (table.count() + tile - 1) / tile : 0;
  };
  const auto piece = [](const DistanceTable<const In>& table, std::int64_t i) {
    return Interval{i * tile, std::min((i + 1) * tile, table.count())};
  };
#pragma omp parallel num_threads(static_cast <int>(run.division.threads))
  {
    // The system may provide fewer threads than requested (OMP_DYNAMIC, OMP_THREAD_LIMIT).
    for (std::int64_t share = omp_get_thread_num(); share < run.division.threads;
         share += omp_get_num_threads())
      run.work(share);
#pragma omp barrier
#pragma omp for nowait
    for (std::int64_t i = 0; i < query_tiles; ++i) run.gather_dquery(i);
#pragma omp for nowait
    for (std::int64_t i = 0; i < pieces(p.key_table); ++i)
      run.gather_table(p.key_table,
                       &TermSums<Accumulator<In>>::key,
                       p.scale,
                       p.call.relative ? g.dposition_key : g.dkey_table,
                       piece(p.key_table, i));
#pragma omp for nowait
    for (std::int64_t i = 0; i < pieces(p.value_table); ++i)
      run.gather_table(p.value_table,
                       &TermSums<Accumulator<In>>::value,
                       1,
                       g.dvalue_table,
                       piece(p.value_table, i));
    if (run.factors > 0) {
#pragma omp for nowait
      for (std::int64_t pair = 0; pair < p.batch * p.heads; ++pair) run.gather_factors(pair);
    }
    if (p.call.distance_bias.defined()) {
#pragma omp for nowait
      for (std::int64_t h = 0; h < p.heads; ++h) run.gather_distance_bias(h);
    }
    if (p.call.relative) {
#pragma omp for
      for (std::int64_t h = 0; h < p.heads; ++h) run.gather_biases(h);
    }
  }
  if (p.call.span) run.gather_span();
}

}  // namespace
}  // namespace tile_attention

void attention_backward(Cpu cpu, const AttentionGradient& g) {
  attention_backward(cpu, g, ExternalScores(), ExternalScores());
}

void attention_backward(Cpu cpu,
                        const AttentionGradient& g,
                        const ExternalScores& given,
                        const ExternalScores& gradients) {
  if (tile_attention::counts_only(g.forward))
    return tile_attention::count_backward(*cpu.state, g.forward, given);
  tile_attention::check(g);
  tile_attention::check(g.forward, given);
  tile_attention::check(given, gradients, g.forward.query.dtype());
  const tile_attention::GroupedKeyGradients keys(g);
  with_floating_type(g.forward.query.dtype(), [&](auto tag) {
    tile_attention::run_backward<typename decltype(tag)::type>(keys.by_head(), given, gradients);
  });
  keys.sum(cpu);
}

}  // namespace longspan
