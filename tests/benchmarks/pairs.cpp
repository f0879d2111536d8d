// Training steps of the network of configs/translation.yaml on batches of pairs in f32: target
// tokens per second without padding, and the cost of different lengths.
//   benchmark_pairs [verses|equal|both] [STEPS] [BATCHES] [SOURCE TARGET MODEL]
// verses: random pairs with lengths as of verses in subwords, or lines of two files with a
// SentencePiece model. Equal: pairs of one length. Both: alternates; the metric "padding" is the
// ratio of tokens per second without padding to those at equal lengths. Batches are as in training.
// The file BATCHES ("-": none) receives their shapes and lengths, for
// tests/benchmarks/peer_pairs.py. The result is the best of three rounds per batch. Under mpirun
// the ranks share each batch.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "framework/data/batching/bucketed_source.h"
#include "framework/data/examples/parallel_examples.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/distributed/session.h"
#include "framework/trainer/trainer.h"
#include "tests/benchmarks/support/bench_device.h"
#include "tests/benchmarks/support/pairs_model.h"

namespace longspan {
namespace {

using bench::pairs_vocabulary;
constexpr std::int64_t first_text_id = 3;  // after padding, begin and end
const BucketOptions buckets = {.batch_tokens = 8000,
                               .longest = 256,
                               .too_long = OverlongPolicy::truncate,
                               .length_multiple = 4};

// Pairs of random tokens. Lengths are log-normal, with parameters of the verses of launch/example
// translation in 4,000 subwords: 35 tokens on either side, correlation 0.92.
class RandomPairs final : public Examples {
 public:
  explicit RandomPairs(bool equal) {
    constexpr std::int64_t count = 29045;
    // Equal lengths: the mean verse length over tokens, 40 columns with the end token of the
    // target.
    lengths_.resize(count, {40, 39});
    if (equal) return;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      const double source = 3.47 + 0.43 * normal(2 * i);
      const double target = source + 0.17 * normal(2 * i + 1);
      lengths_[i] = {rounded(source), rounded(target)};
    }
  }

  std::int64_t size() const override { return std::ssize(lengths_); }
  const std::string& path() const override { return path_; }
  std::string place(std::int64_t example) const override {
    return fmt::format("{}:{}", path_, example + 1);
  }
  Lengths lengths(std::int64_t example) const override {
    return lengths_[static_cast<std::size_t>(example)];
  }
  std::int64_t extra_columns() const override { return 1; }

  Batch read(const BatchRequest& request) const override {
    const auto rows = std::ssize(request.examples);
    Batch batch;
    batch.fields = {{"source", full_tensor({rows, request.columns.source}, 0)},
                    {"source_length", full_tensor({rows}, 0)},
                    {"tokens", full_tensor({rows, request.columns.target}, 0)},
                    {"targets", full_tensor({rows, request.columns.target}, ignored_target)},
                    {"length", full_tensor({rows}, 0)}};
    batch.counts = {{"tokens", 0}, {"source_tokens", 0}};
    for (std::size_t row = 0; row < request.examples.size(); ++row)
      if (const std::int64_t example = request.examples[row]; example >= 0)
        add(batch, row, example);
    return batch;
  }

 private:
  void add(Batch& batch, std::size_t row, std::int64_t example) const {
    const auto [source, target] = lengths(example);
    const Random random = random_.child(static_cast<std::uint64_t>(example));
    for (const char* name : {"source", "tokens", "targets"}) {
      const auto ids = row_of(batch.field(name), row);
      const std::int64_t count = std::string(name) == "source" ? source : target + 1;
      for (std::int64_t i = 0; i < count; ++i)
        ids[static_cast<std::size_t>(i)] =
            first_text_id + random.child(name).word(static_cast<std::uint64_t>(i)) %
                                (pairs_vocabulary - first_text_id);
    }
    batch.field("source_length").span<std::int64_t>()[row] = source;
    batch.field("length").span<std::int64_t>()[row] = target + 1;
    batch.counts["tokens"] += target + 1;
    batch.counts["source_tokens"] += source;
  }
  // Source: Box and Muller 1958.
  double normal(std::uint64_t i) const {
    const double radius = std::sqrt(-2 * std::log(1 - random_.uniform_at(2 * i)));
    return radius * std::cos(2 * std::numbers::pi * random_.uniform_at(2 * i + 1));
  }
  static std::int64_t rounded(double logarithm) {
    return std::clamp<std::int64_t>(std::lround(std::exp(logarithm)), 3, buckets.longest);
  }

  std::string path_ = "made-up pairs";
  Random random_ = Random(7);
  std::vector<Lengths> lengths_;
};

// One line per batch, in the format of peer_pairs_data.py.
void write_batches(const std::string& path,
                   const std::shared_ptr<const Examples>& examples,
                   int steps) {
  std::ofstream file(path);
  BucketedSource source(examples, buckets, 1, {});
  for (int i = 0; i < steps; ++i) {
    const Batch batch = source.next();
    file << fmt::format(
        "{{\"source_columns\": {}, \"columns\": {}, \"source_length\": [{}], \"length\": [{}]}}\n",
        batch.field("source").shape()[1],
        batch.field("tokens").shape()[1],
        fmt::join(batch.field("source_length").span<std::int64_t>(), ", "),
        fmt::join(batch.field("length").span<std::int64_t>(), ", "));
  }
  require(file.flush().good(), "{} cannot be written", path);
}

TrainingOptions training_options() {
  TrainingOptions training;
  training.learning_rate = 0.001;
  training.warmup = 300;
  return training;
}

// The first training steps, repeated.
class Timed {
 public:
  Timed(std::string name,
        const ProcessMesh& mesh,
        const std::shared_ptr<const Examples>& examples,
        std::int64_t ids,
        int steps)
      : name_(std::move(name)),
        trainer_(bench::pairs_model(mesh, ids, buckets.max_columns_length()),
                 training_options(),
                 Random(1)) {
    BucketedSource source(examples, buckets, 1, {mesh.data_coordinate(), mesh.data.size(), 1});
    for (int i = 0; i < steps; ++i) batches_.push_back(source.next());
    seconds_.resize(batches_.size(), std::numeric_limits<double>::infinity());
    std::vector<double> sums(3, 0);
    for (const Batch& batch : batches_) {
      sums[0] += static_cast<double>(batch.count("tokens"));
      sums[1] += static_cast<double>(batch.count("source_tokens"));
      for (const char* side : {"source", "tokens"})
        sums[2] += static_cast<double>(batch.field(side).elements());
    }
    const Tensor all = Tensor::from<double>(sums, {3}, Device::cpu());
    mesh.data.all_reduce(all, Reduction::sum);
    targets_ = all.span<double>()[0];
    tokens_ = targets_ + all.span<double>()[1];
    elements_ = all.span<double>()[2];
  }

  void run() {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const double time = bench::wall_seconds(Device::cpu(), [&] { trainer_.step(batches_[i]); });
      seconds_[i] = std::min(seconds_[i], time);
    }
  }

  // Tokens of both sides without padding.
  double tokens_a_second() const { return tokens_ / seconds(); }
  void print(int ranks) const {
    fmt::print(
        "pairs, {}; {} data ranks of {} threads: {} steps, {:.4f} s a step, {:.0f} target "
        "tokens/s, {:.0f} of both sides, {:.1f}% of a batch is padding\n",
        name_,
        ranks,
        omp_get_max_threads(),
        batches_.size(),
        seconds() / static_cast<double>(batches_.size()),
        targets_ / seconds(),
        tokens_a_second(),
        100 * (1 - tokens_ / elements_));
  }

 private:
  double seconds() const {
    double sum = 0;
    for (const double time : seconds_) sum += time;
    return sum;
  }

  std::string name_;
  Trainer trainer_;
  std::vector<Batch> batches_;
  std::vector<double> seconds_;
  double targets_ = 0;
  double tokens_ = 0;
  double elements_ = 0;
};

struct Words {
  std::string lengths = "both";
  int steps = 12;
  std::string batches = "-";
  std::vector<std::string> files = {};  // source, target, SentencePiece model
};

void run(const Communicator& world, const Words& words) {
  const ProcessMesh mesh(world, MeshShape{.data = world.size()});
  std::shared_ptr<const Examples> verses = std::make_shared<RandomPairs>(false);
  std::int64_t ids = pairs_vocabulary;
  if (!words.files.empty()) {
    const Tokenizer tokenizer =
        Tokenizer::subwords(read_subword_model(ConfigPath(words.files.at(2))));
    ids = tokenizer.vocabulary();
    verses = open_parallel_corpus(
        ConfigPath(words.files[0]), ConfigPath(words.files.at(1)), tokenizer, tokenizer, world);
  }
  if (words.batches != "-" && world.rank() == 0) write_batches(words.batches, verses, words.steps);
  std::deque<Timed> timed;
  if (words.lengths != "equal")
    timed.emplace_back("lengths of verses", mesh, verses, ids, words.steps);
  if (words.lengths != "verses")
    timed.emplace_back(
        "equal lengths", mesh, std::make_shared<RandomPairs>(true), ids, words.steps);
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round)
    for (Timed& one : timed) one.run();
  if (world.rank() != 0) return;
  for (const Timed& one : timed) one.print(world.size());
  if (timed.size() == 2)
    bench::figure("padding", timed[0].tokens_a_second() / timed[1].tokens_a_second());
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  using namespace longspan;
  const Session session;
  Words given;
  if (count > 1) given.lengths = words[1];
  if (count > 2) given.steps = std::stoi(words[2]);
  if (count > 3) given.batches = words[3];
  given.files.assign(words + std::min(count, 4), words + count);
  run(session.world(), given);
}
