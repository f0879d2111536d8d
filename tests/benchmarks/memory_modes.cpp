// Savings and costs of memory modes.
//   benchmark_memory_modes depth [FILE.svg]   peak activation bytes of a step over the depth
//   benchmark_memory_modes cost [rounds]      seconds of a step against plain, in turns
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "framework/trainer/trainer.h"
#include "models/decoder.h"

namespace longspan {
namespace {

struct Mode {
  std::string name;
  ResidualKind residual = ResidualKind::plain;
  MemoryOptions memory = {};
};

struct Workload {
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t streams;
  std::int64_t segment;
  double dropout;
};

constexpr std::int64_t vocabulary = 256;

Trainer trainer_of(const Workload& work, const Mode& mode, const Device& device) {
  DecoderOptions options;
  options.common.layers = work.layers;
  options.common.width = work.width;
  options.common.heads = work.heads;
  options.common.dropout = work.dropout;
  options.common.residual = mode.residual;
  return Trainer(make_decoder(options,
                              {.vocabulary = vocabulary,
                               .segment = work.segment,
                               .device = device,
                               .random = Random(1).child("weights"),
                               .memory = mode.memory}),
                 TrainingOptions{},
                 Random(1));
}

Batch random_batch(const Workload& work, const Device& device) {
  const Shape shape = {work.streams, work.segment};
  const Tensor tokens = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  const Tensor targets = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  const Random random(7);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    tokens.data<std::int64_t>()[i] = random.word(2 * element) % vocabulary;
    targets.data<std::int64_t>()[i] = random.word(2 * element + 1) % vocabulary;
  }
  return {.fields = {{"tokens", tokens}, {"targets", targets}},
          .counts = {{"tokens", shape.elements()}},
          .place = "in a benchmark"};
}

// Peak activation bytes of a step, as counted by the allocator.
double peak_activations(const Workload& work, const Mode& mode) {
  const Device device = Device::cpu();
  Trainer trainer = trainer_of(work, mode, device);
  const Batch batch = random_batch(work, device);
  trainer.step(batch);
  device.allocator().reset_peak();
  trainer.step(batch);
  const MemoryReport report = device.allocator().report();
  return static_cast<double>(report.by_tag[static_cast<std::size_t>(MemoryTag::activations)].peak);
}

struct Line {
  std::string name;
  std::vector<double> megabytes;  // by depth
};

// Plot of megabytes (y) over depth (x), both from 0.
std::string plot(const std::vector<std::int64_t>& depths, const std::vector<Line>& lines) {
  constexpr double left = 70, top = 40, width = 480, height = 300;
  const char* const colors[] = {"#b2182b", "#e08214", "#2166ac"};
  double most = 0;
  for (const Line& line : lines) most = std::max(most, line.megabytes.back());
  const double deepest = static_cast<double>(depths.back());
  const auto x = [&](std::int64_t depth) {
    return left + width * static_cast<double>(depth) / deepest;
  };
  const auto y = [&](double megabytes) { return top + height * (1 - megabytes / most); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"400\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"760\" height=\"400\" fill=\"white\"/>\n"
      "<text x=\"{0}\" y=\"22\">Peak activation memory of a training step, MB</text>\n"
      "<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"black\"/>\n"
      "<text x=\"{3}\" y=\"{4}\" text-anchor=\"end\">layers</text>\n",
      left,
      top,
      top + height,
      left + width,
      top + height + 40);
  for (const std::int64_t depth : depths)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       x(depth),
                       top + height + 20,
                       depth);
  for (int tick = 0; tick <= 4; ++tick) {
    const double megabytes = most * tick / 4;
    svg += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f}</text>\n"
        "<path d=\"M{} {:.1f}h{}\" stroke=\"#dddddd\"/>\n",
        left - 8,
        y(megabytes) + 4,
        megabytes,
        left,
        y(megabytes),
        width);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string points;
    for (std::size_t d = 0; d < depths.size(); ++d)
      points += fmt::format("{:.1f},{:.1f} ", x(depths[d]), y(lines[i].megabytes[d]));
    svg += fmt::format(
        "<polyline points=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\"/>\n"
        "<text x=\"{2:.1f}\" y=\"{3:.1f}\" fill=\"{1}\">{4}</text>\n",
        points,
        colors[i],
        left + width + 8,
        y(lines[i].megabytes.back()) + (i == 2 ? 8 : 0),
        lines[i].name);
  }
  return svg + "</svg>\n";
}

void depth(const std::string& file) {
  const std::vector<std::int64_t> depths = {4, 8, 16, 32};
  const std::vector<Mode> modes = {{"plain"},
                                   {"recompute: layer",
                                    ResidualKind::plain,
                                    {.recompute_granularity = RecomputeGranularity::full}},
                                   {"reversible", ResidualKind::reversible}};
  Workload work = {
      .layers = 0, .width = 256, .heads = 4, .streams = 2, .segment = 512, .dropout = 0.1};
  fmt::print("decoder of width {}, {} streams of {} tokens, float32: peak activation MB\n",
             work.width,
             work.streams,
             work.segment);
  std::vector<Line> lines;
  for (const Mode& mode : modes) {
    Line& line = lines.emplace_back(Line{mode.name, {}});
    fmt::print("{:18}", mode.name);
    for (const std::int64_t layers : depths) {
      work.layers = layers;
      line.megabytes.push_back(peak_activations(work, mode) / 1e6);
      fmt::print(" {:3} layers {:8.3f}", layers, line.megabytes.back());
      std::fflush(stdout);
    }
    const double stored =
        static_cast<double>(work.streams * work.segment * work.width) * sizeof(float) / 1e6;
    const auto [least, most] = std::ranges::minmax(line.megabytes);
    fmt::print("; {:.3f} stored tensors a layer, largest / smallest {:.3f}\n",
               (line.megabytes[3] - line.megabytes[2]) / 16 / stored,
               most / least);
  }
  if (file.empty()) return;
  std::ofstream(file) << plot(depths, lines);
  fmt::print("{} written\n", file);
}

// Processor time, which other processes hardly affect.
struct Seconds {
  double wall;
  double processor;
};
Seconds now() {
  return {omp_get_wtime(), static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC)};
}

void cost(int rounds) {
  const Workload work = {
      .layers = 4, .width = 256, .heads = 4, .streams = 1, .segment = 4096, .dropout = 0};
  const std::vector<Mode> modes = {
      {"plain"},
      {"recompute: attention",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::selective}},
      {"recompute: layer",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::full}},
      {"recompute: {every: 2}",
       ResidualKind::plain,
       {.recompute_granularity = RecomputeGranularity::full, .recompute_num_layers = 2}},
      {"reversible", ResidualKind::reversible},
      {"chunks of 256 rows",
       ResidualKind::plain,
       {.feed_forward_chunks = work.segment / 256, .loss_chunks = work.segment / 256}},
  };
  const Device device = Device::cpu();
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (const Mode& mode : modes) trainers.emplace_back(new Trainer(trainer_of(work, mode, device)));
  const Batch batch = random_batch(work, device);
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<Seconds> best(modes.size(), {never, never});
  for (int round = 0; round < rounds + 1; ++round)
    for (std::size_t i = 0; i < modes.size(); ++i) {
      const Seconds begin = now();
      trainers[i]->step(batch);
      const Seconds end = now();
      // Skips the first round, which initializes kernels.
      if (round == 0) continue;
      best[i].wall = std::min(best[i].wall, end.wall - begin.wall);
      best[i].processor = std::min(best[i].processor, end.processor - begin.processor);
    }
  fmt::print("decoder, {} layers of {}, {} tokens, float32, {} threads, best of {} rounds\n",
             work.layers,
             work.width,
             work.segment,
             omp_get_max_threads(),
             rounds);
  for (std::size_t i = 0; i < modes.size(); ++i)
    fmt::print(
        "{:22} {:8.3f} s a step, {:.3f} of plain; {:8.3f} s of processors, {:.3f} of plain\n",
        modes[i].name,
        best[i].wall,
        best[i].wall / best[0].wall,
        best[i].processor,
        best[i].processor / best[0].processor);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const std::string more = count > 2 ? words[2] : "";
  if (what == "depth") {
    longspan::depth(more);
  } else if (what == "cost") {
    longspan::cost(more.empty() ? 5 : std::stoi(more));
  } else {
    fmt::print(stderr, "usage: benchmark_memory_modes depth [FILE.svg] | cost [rounds]\n");
    return 2;
  }
}
