// Lion (Chen et al. 2023): updates by the sign of a moment, with equal magnitude for all weights.
#include "framework/core/dispatch.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {
namespace {

class Lion : public OptimizerRule {
 public:
  Lion(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options), parameters_(parameters), first_("exp_avg", parameters) {}

  void update(const UpdateStep& step) override {
    for (const FlatParameterRun& run : parameters_.runs())
      on(parameters_.device(), [&](auto backend) {
        lion_update(backend,
                    {.range = range_of(run, step, options_.weight_decay),
                     .first = first_.of(run),
                     .beta1 = options_.beta1.value_or(0.9),
                     .beta2 = options_.beta2.value_or(0.99)});
      });
  }

  std::string state_signature() const override { return "the moment of lion"; }
  void add_to(TrainingState& state) const override { first_.add_to(state); }

 private:
  OptimizerOptions options_;
  const Parameters& parameters_;
  StateBuffer first_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_lion(const OptimizerOptions& options,
                                         const Parameters& parameters) {
  return std::make_unique<Lion>(options, parameters);
}

}  // namespace longspan
