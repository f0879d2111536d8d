// Messages for diverged runs: what to change, and where to resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "framework/trainer/training_options.h"

namespace longspan {

// Returns advice against unbounded weight growth, given the current options: a clause.
std::string divergence_advice(const TrainingOptions& options);

// Returns a clause about the checkpoint that the run resumes from and about an earlier one, also if
// there is none. `resume`: checkpoint.resume_from.
std::string resume_hint(const std::filesystem::path& checkpoints, const std::string& resume);

// Throws DivergedError if the reconstruction error of a reversible stack exceeds
// memory.reconstruction_tolerance or is NaN.
void check_reconstruction_error(std::int64_t step, double error, double bound);

}  // namespace longspan
