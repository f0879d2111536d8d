// UTF-8 is core's, where the metrics need it too.
#pragma once

#include "framework/core/utf8.h"  // IWYU pragma: export
