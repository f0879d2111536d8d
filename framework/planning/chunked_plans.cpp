// Plans of sequences in chunks, extrapolated from short ones, and the longest sequences that fit.
#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/format.h"
#include "framework/planning/plan.h"

namespace longspan {
namespace {

// Numbers of chunks of the plans. Work grows as a polynomial through the last three, which the
// first confirms. Memory grows on a line through the second and the last.
constexpr std::array<std::int64_t, 4> samples = {24, 32, 48, ChunkedPlans::most_planned};
constexpr std::size_t line_begin = 1, line_end = 3;
// Largest difference between the growths of memory in both halves of the line. Memory includes
// cached blocks, whose sizes grow in steps.
constexpr double growth_tolerance = 0.15;
constexpr double work_tolerance = 1e-3;

double count_of(std::size_t sample) { return static_cast<double>(samples[sample]); }

double slope(const std::array<double, 4>& y, std::size_t begin, std::size_t end) {
  return (y[end] - y[begin]) / (count_of(end) - count_of(begin));
}

double line_at(const std::array<double, 4>& y, double x) {
  return y[line_end] + slope(y, line_begin, line_end) * (x - count_of(line_end));
}

double parabola_at(const std::array<double, 4>& y, double x) {
  double sum = 0;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    double term = y[i];
    for (std::size_t j = 1; j < samples.size(); ++j)
      if (j != i) term *= (x - count_of(j)) / (count_of(i) - count_of(j));
    sum += term;
  }
  return sum;
}

bool is_on_parabola(const std::array<double, 4>& y) {
  return std::abs(parabola_at(y, count_of(0)) - y[0]) <= work_tolerance * y[0];
}

// Steps in the bytes of allocations may hide the square: then a line.
double growth_at(const std::array<double, 4>& y, double x) {
  return is_on_parabola(y) ? parabola_at(y, x) : line_at(y, x);
}

// Values of one quantity in each plan.
template <typename Read>
std::array<double, 4> values_of(const std::vector<StepPlan>& plans, const Read& read) {
  std::array<double, 4> values = {};
  for (std::size_t i = 0; i < samples.size(); ++i) values[i] = static_cast<double>(read(plans[i]));
  return values;
}

}  // namespace

ChunkedPlans::ChunkedPlans(const std::function<StepPlan(std::int64_t chunks)>& plan) {
  for (const std::int64_t chunks : samples) plans_.push_back(plan(chunks));
}

bool ChunkedPlans::is_confirmed() const {
  const auto bytes = values_of(plans_, [](const StepPlan& plan) { return plan.bytes(); });
  const auto flops = values_of(plans_, [](const StepPlan& plan) { return plan.flops; });
  const double early = slope(bytes, 1, 2), late = slope(bytes, 2, 3);
  // Growth of less than a thousandth of the memory of 64 chunks is none.
  const double least = 1e-3 * bytes.back() / count_of(line_end);
  return std::abs(late - early) <= growth_tolerance * std::max({early, late, least}) &&
         is_on_parabola(flops);
}

StepPlan ChunkedPlans::at(double chunks) const {
  const auto memory_at = [&](const auto& read) {
    return static_cast<std::int64_t>(std::llround(line_at(values_of(plans_, read), chunks)));
  };
  const auto work_at = [&](const auto& read) {
    return parabola_at(values_of(plans_, read), chunks);
  };
  StepPlan result = plans_.back();
  for (std::size_t tag = 0; tag < memory_tags; ++tag)
    result.memory.by_tag[tag].peak =
        memory_at([tag](const StepPlan& plan) { return plan.memory.by_tag[tag].peak; });
  result.memory.total.peak = memory_at([](const StepPlan& plan) { return plan.memory.total.peak; });
  result.memory.reserved = memory_at([](const StepPlan& plan) { return plan.memory.reserved; });
  result.tokens = work_at([](const StepPlan& plan) { return plan.tokens; });
  result.flops = work_at([](const StepPlan& plan) { return plan.flops; });
  result.touched =
      growth_at(values_of(plans_, [](const StepPlan& plan) { return plan.touched; }), chunks);
  for (auto& [name, axis] : result.traffic) {
    axis.bytes = work_at([&](const StepPlan& plan) { return plan.traffic.at(name).bytes; });
    axis.collectives = std::llround(
        work_at([&](const StepPlan& plan) { return plan.traffic.at(name).collectives; }));
  }
  return result;
}

double ChunkedPlans::longest(double memory) const {
  const auto bytes = values_of(plans_, [](const StepPlan& plan) { return plan.bytes(); });
  const double each = slope(bytes, line_begin, line_end);
  if (each <= 0) return bytes.back() <= memory ? HUGE_VAL : 0;
  return static_cast<double>(samples.back()) + (memory - bytes.back()) / each;
}

namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 36;  // the most that data.seq_length allows
constexpr std::int64_t longest_chunk = 1 << 16;

std::int64_t rounded_down(double tokens, std::int64_t unit) {
  return static_cast<std::int64_t>(tokens) / unit * unit;
}

// Plans of a layout by sequence and chunk length.
class LengthSearch {
 public:
  LengthSearch(const Reconfigure& reconfigure,
               const StepPlan& plan,
               double memory,
               const DataSizes& ids)
      : reconfigure_(reconfigure),
        settings_(reconfigure({})),
        mesh_(plan.mesh),
        processor_(plan.processor),
        memory_(memory),
        ids_(ids) {}

  // Interpolates between a length that fits and one that does not, from the configured length on.
  LongestSequence in_one_pass() const {
    constexpr std::int64_t unit = 64;
    LongestSequence result = {.keys = {"memory.bptt_chunk_length=none"}};
    std::int64_t fits = 0, fails = most_tokens + unit;
    double bytes_that_fit = 0, too_many_bytes = 0;
    for (std::int64_t tokens = settings_->data.segment; tokens > fits && tokens < fails;) {
      try {
        StepPlan found = plan(tokens, result.keys);
        if (found.bytes() <= memory_) {
          fits = tokens;
          bytes_that_fit = found.bytes();
          result.plan = std::move(found);
        } else {
          fails = tokens;
          too_many_bytes = found.bytes();
          result.limit.clear();
        }
      } catch (const ConfigurationError& error) {
        // The configured length is valid, so a shorter one is too short.
        result.limit = error.what();
        if (tokens <= settings_->data.segment) break;
        fails = tokens;
        too_many_bytes = 0;
      }
      if (static_cast<double>(fails) <= 1.01 * static_cast<double>(fits)) break;
      double next = 4.0 * static_cast<double>(fits);
      if (fails <= most_tokens) {
        const double share =
            too_many_bytes > 0
                ? std::clamp(
                      (memory_ - bytes_that_fit) / (too_many_bytes - bytes_that_fit), 0.05, 0.95)
                : 0.5;
        next = static_cast<double>(fits) + share * static_cast<double>(fails - fits);
      }
      tokens = std::min(std::max(rounded_down(next, unit), fits + unit), fails - unit);
    }
    result.tokens = fits;
    return result;
  }

  LongestSequence in_chunks() const {
    LongestSequence result = {.in_chunks = true};
    std::int64_t best = 0;
    double most = 0;
    for (std::int64_t chunk = ChunkedPlans::shortest_chunk; chunk <= longest_chunk; chunk *= 2)
      try {
        const std::vector<std::string> keys = bptt_chunk_keys(*settings_, chunk);
        const ChunkedPlans plans([&](std::int64_t chunks) { return plan(chunks * chunk, keys); });
        if (!plans.is_confirmed()) continue;
        const double tokens = plans.longest(memory_) * static_cast<double>(chunk);
        // Longer chunks need fewer states and more activations.
        if (tokens < 0.9 * most) break;
        if (tokens <= most) continue;
        most = std::min(tokens, static_cast<double>(most_tokens));
        best = chunk;
      } catch (const ConfigurationError& error) {
        if (best == 0) result.limit = error.what();
        break;
      }
    if (best == 0) return result;
    result.keys = bptt_chunk_keys(*settings_, best);
    // The estimate may be slightly too large, or the length not supported.
    std::int64_t fits = 0, fails = most_tokens + best;
    for (std::int64_t tokens = rounded_down(most, best); tokens > fits && tokens < fails;) {
      const bool is_estimate = fails > most_tokens;
      try {
        StepPlan found = plan(tokens, result.keys);
        if (found.bytes() <= memory_) {
          fits = tokens;
          result.plan = std::move(found);
        } else {
          fails = tokens;
          result.limit.clear();
        }
      } catch (const ConfigurationError& error) {
        fails = tokens;
        result.limit = error.what();
      }
      if (fits == tokens && is_estimate) break;
      const auto top = static_cast<double>(fails), bottom = static_cast<double>(fits);
      if (top <= 1.01 * bottom) break;
      // A sequence that needs too much memory is only slightly too long.
      tokens =
          rounded_down(fits == 0 && result.limit.empty() ? 0.99 * top : (bottom + top) / 2, best);
    }
    result.tokens = fits;
    return result;
  }

 private:
  StepPlan plan(std::int64_t tokens, std::vector<std::string> keys) const {
    keys.push_back(fmt::format("data.seq_length={}", tokens));
    return plan_step(*reconfigure_(keys), mesh_, ids_, processor_);
  }

  const Reconfigure& reconfigure_;
  std::shared_ptr<const RunConfig> settings_;
  MeshShape mesh_;
  Processor processor_;
  double memory_;
  const DataSizes& ids_;
};

}  // namespace

std::vector<std::string> bptt_chunk_keys(const RunConfig& settings, std::int64_t chunk_length) {
  std::vector<std::string> keys = {fmt::format("memory.bptt_chunk_length={}", chunk_length)};
  if (settings.memory.feed_forward_chunks > 1)
    keys.emplace_back("memory.num_feed_forward_chunks=1");
  if (settings.memory.loss_chunks > 1) keys.emplace_back("memory.num_loss_chunks=1");
  return keys;
}

std::vector<LongestSequence> longest_sequences(const Reconfigure& reconfigure,
                                               const StepPlan& plan,
                                               double memory,
                                               const DataSizes& ids) {
  const LengthSearch search(reconfigure, plan, memory, ids);
  return {search.in_one_pass(), search.in_chunks()};
}

}  // namespace longspan
