// Trains a decoder of the library on custom data and saves it:
//   train_on_own_data FOLDER-OF-CHECKPOINTS
#include <iostream>

#include "checkpoints/checkpoint.h"
#include "framework/trainer/trainer.h"
#include "models/decoder.h"

using namespace longspan;

namespace {

constexpr std::int64_t numbers = 16;
constexpr std::int64_t rows = 8;
constexpr std::int64_t time_steps = 12;

// Rows that count in steps of three modulo `numbers`, each from its own first number.
class Counting : public BatchSource {
 public:
  Batch next() override {
    std::vector<std::int64_t> read, wanted;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < time_steps; ++i) {
        const std::int64_t first = batches_ * 5 + row;
        read.push_back((first + 3 * i) % numbers);
        wanted.push_back((first + 3 * (i + 1)) % numbers);
      }
    ++batches_;
    const auto ids = [](const std::vector<std::int64_t>& values) {
      return Tensor::from<std::int64_t>(values, {rows, time_steps}, Device::cpu());
    };
    // Inputs and targets of a language model, and the divisor of the loss.
    return {.fields = {{"tokens", ids(read)}, {"targets", ids(wanted)}},
            .counts = {{"tokens", rows * time_steps}},
            .place = "in batch " + std::to_string(batches_)};
  }
  // The position of the source: [1, 1].
  Tensor cursors() const override {
    return Tensor::from<std::int64_t>(std::vector{batches_}, {1, 1}, Device::cpu());
  }
  CursorRows cursor_rows() const override { return {.total = 1, .shared = true}; }
  void restore(const Tensor& cursors) override { batches_ = *cursors.data<std::int64_t>(); }

 private:
  std::int64_t batches_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "train_on_own_data: expected 1 argument, the folder for checkpoints\n";
    return 2;
  }
  DecoderOptions decoder;
  decoder.common.layers = 1;
  decoder.common.width = 32;
  decoder.common.heads = 2;
  decoder.common.dropout = 0;
  TrainingOptions training;
  training.steps = 120;
  training.learning_rate = 5e-3;
  const ModelBuildOptions setting = {
      .vocabulary = numbers, .segment = time_steps, .device = Device::cpu()};
  Trainer trainer(make_decoder(decoder, setting), training, Random(1));
  Counting source;
  double first = 0, last = 0;
  for (std::int64_t step = 0; step < training.steps; ++step) {
    last = trainer.step(source.next()).loss;
    if (step == 0) first = last;
  }
  TrainingState state;
  trainer.save(state, source.cursor_rows());
  state.add("source", source.cursors(), true);
  const CheckpointInfo info = {.step = trainer.steps()};
  const auto saved = save_checkpoint(arguments[1], info, state, {});
  std::cout << "from " << first << " to " << last << ", saved as " << saved.filename().string()
            << "\n";
  return last < first / 3 ? 0 : 1;
}
