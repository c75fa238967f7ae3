// Looked-up rows and copied columns of a LookupDevicePlan.
#include "device_plan_builder.h"
#include "kernels/lookup/ids.h"

namespace dpiframe::cuda {
namespace {

// The kind for chunks of so many bytes, `of_16` being that for 16.
ChunkKind KindOf(ChunkKind of_16, uint32_t bytes) {
  const uint32_t smaller = bytes == 16 ? 0 : bytes == 8 ? 1 : bytes == 4 ? 2 : 3;
  return static_cast<ChunkKind>(static_cast<uint32_t>(of_16) + smaller);
}

}  // namespace

// Where the id of a row or term is read, and in which table the row lies.
Lookup LookupDevicePlanBuilder::MakeLookup(const ProgramTerm& term) {
  const ProgramTable& table = program_.tables[static_cast<size_t>(term.table)];
  const size_t number = static_cast<size_t>(term.table);
  Lookup lookup{};
  const uint64_t offset = static_cast<uint64_t>(term.first) * ElementBytes();
  const bool dynamic = tables_[number] == nullptr;
  lookup.base.bits = dynamic ? uint64_t{plan_.table_words[number]} << TableBase::kOffsetBits | offset
                             : reinterpret_cast<uint64_t>(tables_[number]) + offset;
  lookup.stride = Narrow(table.dim * ElementBytes(), "the size of a table's row in bytes");
  if (term.id.source < 0) {
    const IdColumn id{-1, 0, term.id.constant, term.id.div, term.id.mod, term.id.mul, term.id.add};
    const uint64_t value = static_cast<uint64_t>(ApplySteps(id, term.id.constant));
    lookup.facts = Facts::Of(table.rows, 0, Read::kConstant);
    lookup.column = static_cast<uint32_t>(value);
    lookup.columns = static_cast<uint32_t>(value >> 32);
  } else {
    const size_t source = static_cast<size_t>(term.id.source);
    lookup.facts = Facts::Of(table.rows, plan_.source_words[source], ReadOf(source_types_[source]));
    lookup.facts = lookup.facts.With(Facts::kStepsBit, HasSteps(term.id));
    lookup.column = term.id.is_star() ? 0 : Narrow(term.id.column, "a source's column");
    lookup.columns = ColumnsField(term.id.source);
  }
  lookup.facts = lookup.facts.With(Facts::kDynamicTableBit, dynamic);
  return lookup;
}

uint32_t LookupDevicePlanBuilder::ColumnsField(int source) const {
  const ProgramSource& layout = program_.sources[static_cast<size_t>(source)];
  if (layout.columns == kStar) return kDynamicColumns;
  return layout.layout == Layout::kColumn ? 0 : Narrow(layout.columns, "the number of a source's columns");
}

// The largest chunk that starts at `offset` bytes of the row and `from` bytes of what is read.
uint32_t LookupDevicePlanBuilder::ChunkBytes(uint64_t row_bytes, uint64_t offset, uint64_t from, uint64_t from_stride,
                                             uint64_t left, uint32_t least) {
  uint32_t bytes = kChunkBytes;
  while (bytes > least && ((row_bytes | offset | from | from_stride) % bytes != 0 || left < bytes)) bytes /= 2;
  return bytes;
}

void LookupDevicePlanBuilder::Emit(const SegmentKey& key, uint32_t bytes, uint64_t offset, Lookup lookup,
                                   uint32_t line) {
  lookup.extra = Narrow(static_cast<int64_t>(offset / bytes), "the width of an output's row");
  pieces_[key].push_back({lookup, line});
  Raise(&plan_.output_alignments[static_cast<size_t>(std::get<0>(key))], bytes);
}

// The segment of a looked-up row's chunks.
LookupDevicePlanBuilder::SegmentKey LookupDevicePlanBuilder::RowKey(int output, const IdExpression& id,
                                                                    const Lookup& lookup, uint32_t bytes) const {
  const Read read = lookup.facts.read();
  const bool shift_alone = id.div == 0 && id.mod == 0 && id.mul == 1;
  const bool plain = (read == Read::kInt32 || read == Read::kInt64) && shift_alone && !lookup.facts.dynamic_table() &&
                     lookup.facts.table_rows() <= int64_t{1} << 32;
  if (!plain) return {output, KindOf(ChunkKind::kGeneral16, bytes), Read::kInt32, false, false};
  return {output, KindOf(ChunkKind::kPlain16, bytes), read, lookup.columns == 0, id.add != 0};
}

void LookupDevicePlanBuilder::AddRow(const ProgramBlock& block, uint32_t line) {
  const ProgramTerm& term = block.terms[0];
  const Lookup whole = MakeLookup(term);
  const uint64_t first = static_cast<uint64_t>(term.first) * ElementBytes();
  const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
  const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
  for (uint64_t done = 0; done < width;) {
    const uint32_t bytes =
        ChunkBytes(RowBytes(block.output), start + done, first + done, whole.stride, width - done, ElementBytes());
    Lookup chunk = whole;
    chunk.base.bits += done;
    chunk.facts = chunk.facts.With(Facts::kCountingBit, done == 0);
    Emit(RowKey(block.output, term.id, chunk, bytes), bytes, start + done, chunk, line);
    Raise(&plan_.table_alignments[static_cast<size_t>(term.table)], bytes);
    done += bytes;
  }
}

void LookupDevicePlanBuilder::AddCopy(const ProgramBlock& block) {
  const size_t source = static_cast<size_t>(block.source);
  const ProgramSource& layout = program_.sources[source];
  const bool to_half = source_types_[source] != type_;
  // Whole chunks only where the source's columns lie side by side in the output's own type.
  const bool by_element = to_half || layout.layout == Layout::kColumn;
  Lookup copy{};
  copy.facts = Facts::Of(0, plan_.source_words[source], ReadOf(source_types_[source])).With(Facts::kHalfBit, to_half);
  copy.columns = ColumnsField(block.source);
  const uint64_t first = static_cast<uint64_t>(block.first_column) * ElementBytes();
  const uint64_t stride = static_cast<uint64_t>(layout.columns) * ElementBytes();
  const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
  const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
  for (uint64_t done = 0; done < width;) {
    const uint32_t bytes = by_element ? ElementBytes()
                                      : ChunkBytes(RowBytes(block.output), start + done, first + done, stride,
                                                   width - done, ElementBytes());
    copy.column = Narrow(static_cast<int64_t>((first + done) / ElementBytes()), "a source's column");
    Emit({block.output, KindOf(ChunkKind::kCopy16, bytes), Read::kInt32, false, false}, bytes, start + done, copy, 0);
    if (!by_element) Raise(&plan_.source_alignments[source], bytes);
    done += bytes;
  }
}

}  // namespace dpiframe::cuda
