#include "pool_runs.h"

namespace dpiframe::cuda {
namespace {

// Whether b is a, `step` columns on.
bool Follows(const IdExpression& a, const IdExpression& b, int64_t step) {
  IdExpression moved = a;
  moved.column += step;
  return a.column >= 0 && moved == b;
}

// Whether the weight of a run's next term is `count` steps on from that of its first.
bool WeightFollows(const TermWeight& first, const TermWeight& next, const TermRun& run) {
  const int64_t columns = static_cast<int64_t>(run.count) * run.weight_column_step;
  const int64_t numbers = static_cast<int64_t>(run.count) * run.number_step;
  if (first.kind != next.kind || first.position != next.position || next.number - first.number != numbers) return false;
  switch (first.kind) {
    case WeightKind::kOne:
      return true;
    case WeightKind::kColumn:
      return first.source == next.source && first.column + columns == next.column;
    case WeightKind::kNotEqual:
    case WeightKind::kLess:
      return first.id.source < 0 ? first.id == next.id && columns == 0 : Follows(first.id, next.id, columns);
  }
  return false;
}

bool TermFollows(const ProgramTerm& first, const ProgramTerm& next, const TermRun& run) {
  return first.table == next.table && first.first == next.first && first.id.source >= 0 && !first.id.is_star() &&
         Follows(first.id, next.id, static_cast<int64_t>(run.count)) && WeightFollows(first.weight, next.weight, run);
}

TermRun RunOfStar(const LookupProgram& program, const ProgramTerm& term, size_t index) {
  const int64_t columns = program.sources[static_cast<size_t>(term.id.source)].columns;
  TermRun run{index, columns == kStar ? 0 : static_cast<size_t>(columns), 0, term.weight.position ? 1 : 0};
  const bool star_column = term.weight.kind == WeightKind::kColumn && term.weight.column == kStar;
  run.weight_column_step = star_column || term.weight.id.is_star() ? 1 : 0;
  return run;
}

}  // namespace

std::vector<TermRun> FindRuns(const LookupProgram& program, const std::vector<ProgramTerm>& terms) {
  std::vector<TermRun> runs;
  for (size_t first = 0; first < terms.size();) {
    if (terms[first].id.is_star()) {
      runs.push_back(RunOfStar(program, terms[first], first));
      ++first;
      continue;
    }
    TermRun best{first, 1, 0, 0};
    for (int steps = 0; steps < 4; ++steps) {
      TermRun run{first, 1, steps & 1, steps >> 1};
      while (first + run.count < terms.size() && TermFollows(terms[first], terms[first + run.count], run)) ++run.count;
      if (run.count > best.count) best = run;
    }
    runs.push_back(best);
    first += best.count;
  }
  return runs;
}

}  // namespace dpiframe::cuda
