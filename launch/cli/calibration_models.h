// Models that `longspan plan --calibrate` trains.
#pragma once

#include "framework/planning/machine.h"

namespace longspan {

// Returns the models: a small decoder to measure, and others that estimate the prediction error, a
// narrow one with recurrent memory and a wide one.
CalibrationModels calibration_models();

}  // namespace longspan
