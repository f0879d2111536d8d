#include "models/previous_action_inputs.h"

#include "framework/core/async_copy.h"
#include "framework/kernels/element.h"

namespace longspan {

PreviousActionInputs::PreviousActionInputs(const Scope& scope,
                                           std::int64_t width,
                                           const Initializer& initial,
                                           const ModelBuildOptions& setting)
    : device_(setting.device),
      compute_(setting.compute),
      action_(scope.child("previous_action"), setting.classes, width, initial),
      reward_(scope.child("reward"), {.in = 1, .out = width, .bias = false, .hidden = false}) {}

Variable PreviousActionInputs::operator()(const Variable& x,
                                          const ModelInput& reading,
                                          double scale,
                                          const SequenceShard& time) const {
  const Tensor actions = columns_of(reading, "previous_action", time, device_);
  return add(add(x, action_(actions, scale, time)), reward_(rewards(reading, time)));
}

Variable PreviousActionInputs::rewards(const ModelInput& reading, const SequenceShard& time) const {
  const Tensor& field = field_of(reading.fields, "reward");
  const Ranges& positions = time.outside();
  const std::int64_t rows = field.shape()[0], columns = field.shape()[1];
  const Tensor here = Tensor::empty({rows, total_count(positions), 1},
                                    accumulator_of(compute_),
                                    device_.host(),
                                    MemoryTag::workspace);
  dispatch_on_host(here.device(), [&] {
    with_floating_type(here.dtype(), [&]<typename T>(TypeTag<T>) {
      T* to = here.data<T>();
      for (std::int64_t row = 0; row < rows; ++row)
        for (const Range& range : positions)
          for (std::int64_t at = range.begin; at < range.end; ++at)
            *to++ = T(static_cast<Accumulator<T>>(field.data<double>()[row * columns + at]));
    });
  });
  return cast(Variable(copy_async(here, device_)), compute_);
}

}  // namespace longspan
