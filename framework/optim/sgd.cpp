// Stochastic gradient descent, with and without momentum.
#include <optional>

#include "framework/core/dispatch.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {
namespace {

class Sgd : public OptimizerRule {
 public:
  Sgd(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options), parameters_(parameters), momentum_(options.momentum.value_or(0.9)) {
    if (momentum_ > 0) buffer_.emplace("momentum_buffer", parameters);
  }

  void update(const UpdateStep& step) override {
    for (const FlatParameterRun& run : parameters_.runs())
      on(parameters_.device(), [&](auto backend) {
        sgd_update(backend,
                   {.range = range_of(run, step, options_.weight_decay),
                    .buffer = buffer_ ? buffer_->of(run) : Tensor(),
                    .momentum = momentum_,
                    .nesterov = options_.nesterov.value_or(false),
                    .step = step.number});
      });
  }

  std::string state_signature() const override {
    return buffer_ ? "the momentum of sgd" : "nothing (sgd without momentum)";
  }
  void add_to(TrainingState& state) const override {
    if (buffer_) buffer_->add_to(state);
  }

 private:
  OptimizerOptions options_;
  const Parameters& parameters_;
  double momentum_;
  std::optional<StateBuffer> buffer_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_sgd(const OptimizerOptions& options,
                                        const Parameters& parameters) {
  return std::make_unique<Sgd>(options, parameters);
}

}  // namespace longspan
