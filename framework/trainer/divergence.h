// What is said of a run that has diverged: what to change, and what it can go on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "framework/trainer/training_options.h"

namespace longspan {

// What keeps weights from growing without bound, with what is set now: a clause.
std::string divergence_advice(const TrainingOptions& options);

// Which of the steps in a folder of checkpoints a run goes on from, and which is an earlier one: a
// clause, also where there is none.
// `resume`: checkpoint.resume_from.
std::string resume_hint(const std::filesystem::path& checkpoints, const std::string& resume);

// Throws DivergedError where what a reversible stack rebuilt in a step is further from the truth
// than memory.reconstruction_tolerance, or no number.
void check_reconstruction_error(std::int64_t step, double error, double bound);

}  // namespace longspan
