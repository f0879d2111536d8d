// Milliseconds to read a batch of a language model from files of 100 GB, which are sparse to avoid
// disk reads. Also memory of the process after the first and the last batch.
//   benchmark_reading [BATCHES] [STREAMS] [SEGMENT]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/corpus/mixture_source.h"
#include "framework/data/corpus/stream_reader.h"
#include "tests/data/temporary_file.h"
#include "tests/support/process_bytes.h"

namespace longspan {
namespace {

constexpr std::int64_t file_bytes = 100'000'000'000;

std::int64_t held() { return process_bytes("VmRSS"); }

void measure(const std::string& what, BatchSource& source, int batches) {
  using Clock = std::chrono::steady_clock;
  source.next();
  const std::int64_t before = held();
  std::vector<double> seconds;
  for (int i = 0; i < batches; ++i) {
    const auto begin = Clock::now();
    const Batch batch = source.next();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  const auto at = [&seconds](double part) {
    return 1e3 * seconds[static_cast<std::size_t>(part * static_cast<double>(seconds.size() - 1))];
  };
  fmt::print("{:<40} median {:.3f} ms, of 99% at most {:.3f} ms; holds {:.1f} MB, then {:.1f} MB\n",
             what,
             at(0.5),
             at(0.99),
             static_cast<double>(before) / 1e6,
             static_cast<double>(held()) / 1e6);
}

Corpus ids(const TemporaryFile& file, std::int64_t vocabulary) {
  const auto opened = std::make_shared<const InputFile>(file.path());
  return CorpusFile(TokenIdFile(opened, vocabulary, TokenDType::fitting),
                    Tokenizer::ids(vocabulary));
}

void run(int batches, const StreamLayout& layout) {
  const TemporaryFile first("first");
  const TemporaryFile second("second");
  for (const TemporaryFile* file : {&first, &second}) file->resize(file_bytes);
  const Device cpu = Device::cpu();
  fmt::print("{} batches of {} streams of {} tokens\n", batches, layout.streams, layout.segment);
  StreamSource bytes(Corpus(first.path(), Tokenizer()), layout, 0, 1, cpu);
  measure("text, in order", bytes, batches);
  StreamSource in_order(ids(first, 50'000), layout, 0, 1, cpu);
  measure("ids of 16 bits, in order", in_order, batches);
  for (const std::int64_t piece : {std::int64_t{256}, std::int64_t{8192}}) {
    WeightedMixtureSource mixed(
        {{DocumentList(ids(first, 50'000), piece), 2},
         {DocumentList(ids(second, 50'000), piece), 1}},
        {.layout = layout, .seed = 1, .shuffle = true, .reset_attention_mask = true},
        0,
        1,
        cpu);
    measure(fmt::format("two files, pieces of {}, shuffled", piece), mixed, batches);
  }
}

}  // namespace
}  // namespace longspan

int main(int count, char** arguments) {
  const auto number = [&](int i, int usual) { return count > i ? std::atoi(arguments[i]) : usual; };
  longspan::run(std::max(1, number(1, 4000)),
                {.streams = number(2, 8), .segment = number(3, 2048)});
  return 0;
}
