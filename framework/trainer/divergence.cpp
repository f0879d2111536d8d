#include "framework/trainer/divergence.h"

#include <fmt/format.h>

#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"

namespace longspan {

std::string divergence_advice(const TrainingOptions& options) {
  return fmt::format(
      "set a smaller training.learning_rate (now {}) or {} training.max_grad_norm (now {})",
      options.learning_rate,
      options.clip_norm > 0 ? "a smaller" : "clip the gradients with",
      options.clip_norm > 0 ? fmt::format("{}", options.clip_norm) : "0: no clipping");
}

std::string resume_hint(const std::filesystem::path& checkpoints, const std::string& resume) {
  const std::vector<std::int64_t> steps = steps_in(checkpoints);
  const bool is_named = resume != "auto" && resume != "never";
  if (steps.empty() && is_named)
    return fmt::format("no checkpoint was saved; run the same command to resume from {}", resume);
  if (steps.empty()) return "no checkpoint was saved; run the same command to restart";
  const auto path = [&](std::int64_t step) { return (checkpoints / step_name(step)).string(); };
  std::string clause = fmt::format("run the same command{} to resume from {}",
                                   resume == "auto" ? "" : " with checkpoint.resume_from: auto",
                                   path(steps.back()));
  if (steps.size() > 1)
    clause += fmt::format(
        "; to resume from an earlier one, set checkpoint.resume_from to it, such "
        "as {}, and set another run.output_dir",
        path(steps[steps.size() - 2]));
  return clause;
}

void check_reconstruction_error(std::int64_t step, double error, double bound) {
  // NaN exceeds the bound as well.
  if (error <= bound) return;
  throw DivergedError(
      "step {}: reversible reconstruction error {:.2e} exceeds memory.reconstruction_tolerance = "
      "{}; resume from an earlier checkpoint with a smaller training.learning_rate, use fewer "
      "layers, or set precision.compute_dtype to float64",
      step,
      error,
      bound);
}

}  // namespace longspan
