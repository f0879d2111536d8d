// What `longspan plan --calibrate` trains.
#pragma once

#include "framework/planning/calibration.h"

namespace longspan {

// A small decoder is measured. Other models show how far a prediction may be off: a narrow one that
// remembers, and a wide one.
CalibrationModels calibration_models();

}  // namespace longspan
