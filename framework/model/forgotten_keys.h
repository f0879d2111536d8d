// Which of what rows carry they do not see any more.
#pragma once

#include "framework/model/reading.h"

namespace longspan {

// 1 where a key is carried of before what its row is a part of now began, by the field `earlier`.
// u8 [rows, carried length + time], on the device, the same on all ranks that share the rows.
// Undefined where rows see all that they carry.
Tensor forgotten_keys(const Reading& reading, const Device& device);

}  // namespace longspan
