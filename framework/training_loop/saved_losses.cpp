#include "framework/training_loop/saved_losses.h"

namespace longspan {
namespace {

constexpr const char* loss_scalar = "metrics/loss";
constexpr const char* validation_step_scalar = "metrics/validation_step";
constexpr const char* validation_loss_scalar = "metrics/validation_loss";
constexpr const char* validation_bits_scalar = "metrics/validation_bits_per_byte";

}  // namespace

void SavedLosses::save(Scalars& scalars) const {
  if (loss) scalars.set(loss_scalar, *loss);
  if (!validation) return;
  scalars.set(validation_step_scalar, validation->step);
  scalars.set(validation_loss_scalar, validation->loss);
  if (validation->bits_per_byte) scalars.set(validation_bits_scalar, *validation->bits_per_byte);
}

SavedLosses SavedLosses::of(const Scalars& scalars) {
  SavedLosses losses;
  if (scalars.has(loss_scalar)) losses.loss = scalars.get<double>(loss_scalar);
  if (scalars.has(validation_step_scalar))
    losses.validation = {.step = scalars.get<std::int64_t>(validation_step_scalar),
                         .loss = scalars.get<double>(validation_loss_scalar)};
  if (losses.validation && scalars.has(validation_bits_scalar))
    losses.validation->bits_per_byte = scalars.get<double>(validation_bits_scalar);
  return losses;
}

}  // namespace longspan
