#pragma once

#include "schedule.h"

namespace dpiframe {

// Chooses how many rows a block has (unless block_rows says it), where each storage lies, and what is worth a thread.
void PlanMemory(Schedule* schedule, int64_t block_rows = 0);

}  // namespace dpiframe
