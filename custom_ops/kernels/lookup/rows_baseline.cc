#include "rows.h"

namespace dpiframe {

void LookupRowsBaseline(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end, void* scratch,
                        BadIds* bad_ids) {
  LookupRows(plan, call, begin, end, scratch, bad_ids);
}

}  // namespace dpiframe
