// Adam and AdamW.
#include "framework/train/optimizers/kinds.h"
#include "framework/train/optimizers/own_buffer.h"

namespace longspan {
namespace {

class Adam : public UpdateRule {
 public:
  Adam(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        first_("first", parameters),
        second_("second", parameters) {}

  void update(const UpdateStep& step) override {
    for (const ParameterRun& run : parameters_.runs())
      on(parameters_.device(), [&](auto backend) {
        adam_update(backend,
                    {.range = range_of(run, step, options_.weight_decay),
                     .first = first_.of(run),
                     .second = second_.of(run),
                     .beta1 = options_.beta1.value_or(0.9),
                     .beta2 = options_.beta2.value_or(0.999),
                     .epsilon = options_.epsilon.value_or(1e-8),
                     .step = step.number,
                     .decoupled = options_.kind == OptimizerKind::adamw});
      });
  }

  std::string keeps() const override { return "the moments of adam or adamw"; }
  void add_to(TrainingState& state) const override {
    first_.add_to(state);
    second_.add_to(state);
  }

 private:
  OptimizerOptions options_;
  const Parameters& parameters_;
  OwnBuffer first_;
  OwnBuffer second_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adam(const OptimizerOptions& options,
                                      const Parameters& parameters) {
  return std::make_unique<Adam>(options, parameters);
}

}  // namespace longspan
