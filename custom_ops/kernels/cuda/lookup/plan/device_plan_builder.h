// The builder of a LookupDevicePlan: rows and copies, pools and bags each have a file of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "device_plan.h"
#include "pool_runs.h"

namespace dpiframe::cuda {

constexpr uint32_t kChunkBytes = 16;

Read ReadOf(ElementType type);
// Throws ProgramTooLarge for what doesn't fit 32 bits, `what` being its name.
uint32_t Narrow(int64_t value, const char* what);
bool HasSteps(const IdExpression& id);
Steps StepsOf(const IdExpression& id);
PoolRule RuleOf(PoolOp op);

class LookupDevicePlanBuilder {
 public:
  LookupDevicePlanBuilder(const LookupProgram& program, const std::vector<ElementType>& source_types,
                          ElementType table_type, const std::vector<const void*>& tables)
      : program_(program), source_types_(source_types), type_(table_type), tables_(tables) {}

  LookupDevicePlan Build();

 private:
  struct Piece {
    Lookup lookup;
    uint32_t line;
  };
  // A pool's chunk: its bytes, its offset from the start of the pool, its place in the output row in chunks.
  struct PoolPiece {
    uint32_t bytes;
    uint64_t done;
    uint32_t place;
  };
  // Output, kind, and what a plain segment's chunks have in common.
  using SegmentKey = std::tuple<int, ChunkKind, Read, bool, bool>;
  // A chunk of a pool of tables.
  struct TablePool {
    SegmentKey key;
    Pooling pooling;
    std::vector<Piece> terms;
  };

  uint32_t ElementBytes() const { return type_ == ElementType::kFloat16 ? 2 : 4; }
  uint64_t RowBytes(int output) const {
    return static_cast<uint64_t>(program_.outputs[static_cast<size_t>(output)].width) * ElementBytes();
  }
  static void Raise(uint32_t* alignment, uint32_t bytes) { *alignment = std::max(*alignment, bytes); }
  static uint32_t ChunkBytes(uint64_t row_bytes, uint64_t offset, uint64_t from, uint64_t from_stride, uint64_t left,
                             uint32_t least);

  void AssignWords();
  void AddBlocks();
  void AddSegments();
  void AddPieces(const SegmentKey& key, const std::vector<Piece>& pieces, SegmentPlan segment);
  void AddSegment(const SegmentKey& key, size_t first, size_t count, SegmentPlan segment);
  SegmentPlan MadeSegment(const SegmentKey& key, size_t first, size_t count, SegmentPlan segment) const;

  Lookup MakeLookup(const ProgramTerm& term);
  uint32_t ColumnsField(int source) const;
  void Emit(const SegmentKey& key, uint32_t bytes, uint64_t offset, Lookup lookup, uint32_t line);
  SegmentKey RowKey(int output, const IdExpression& id, const Lookup& lookup, uint32_t bytes) const;
  void AddRow(const ProgramBlock& block, uint32_t line);
  void AddCopy(const ProgramBlock& block);

  std::vector<PoolPiece> CutPool(const ProgramBlock& block);
  void AddPool(const ProgramBlock& block, uint32_t line);
  void AddPlainPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                    const std::vector<PoolPiece>& pieces, const TermRun& run, const Lookup& lookup);
  bool FitsTablePool(const ProgramBlock& block, const std::vector<PoolPiece>& pieces);
  void AddTablePool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                    const std::vector<PoolPiece>& pieces);
  void AddGeneralPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                      const std::vector<PoolPiece>& pieces, const std::vector<TermRun>& runs);
  void AddToGroup(const Pool& pool, const TermRun& run, bool star);
  Weight MakeWeight(const ProgramTerm& term, const TermRun& run);
  void SetWeightSource(int source, int64_t column, Weight* weight) const;

  void AddBag(const ProgramBlock& block, uint32_t line);
  bool FitsPlainBag(const ProgramBlock& block, const Lookup& lookup) const;
  void AddPlainBag(const ProgramBlock& block, uint32_t line, const Lookup& lookup);

  const LookupProgram& program_;
  const std::vector<ElementType>& source_types_;
  ElementType type_;
  const std::vector<const void*>& tables_;
  LookupDevicePlan plan_;
  std::map<SegmentKey, std::vector<Piece>> pieces_;
  std::vector<TablePool> table_pools_;
  std::map<SegmentKey, std::vector<PlainPool>> plain_pool_pieces_;
  std::map<SegmentKey, std::vector<PoolChunk>> pool_pieces_;
  std::map<SegmentKey, SegmentPlan> pool_terms_;
  std::map<SegmentKey, std::vector<BagChunk>> bag_pieces_;
  std::map<SegmentKey, SegmentPlan> bag_lists_;
  std::map<std::pair<SegmentKey, uint8_t>, std::vector<PlainBag>> plain_bag_pieces_;  // the second: lanes_log2
  std::map<std::pair<SegmentKey, uint8_t>, SegmentPlan> plain_bag_lists_;
};

}  // namespace dpiframe::cuda
