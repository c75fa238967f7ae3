#include "memory.h"

namespace dpiframe {

char* RegionMemory::ForValue(int value, size_t bytes) {
  Piece& piece = values_[static_cast<size_t>(value)];
  piece = Take(bytes);
  return piece.data;
}

char* RegionMemory::ForStep(size_t bytes) {
  of_step_.push_back(Take(bytes));
  return of_step_.back().data;
}

void RegionMemory::EndStep() {
  const RegionStep& step = plan_.steps[step_++];
  for (const Piece& piece : of_step_) Give(step.stream, piece);
  of_step_.clear();
  for (const int value : step.done) {
    const Piece& piece = values_[static_cast<size_t>(value)];
    if (piece.data != nullptr) Give(step.stream, piece);
  }
}

RegionMemory::Piece RegionMemory::Take(size_t bytes) {
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const Piece again = TakeFree(plan_.steps[step_].stream, size);
  if (again.data != nullptr) return again;
  return {new_block_(size), size, blocks_++};
}

// The smallest that is large enough; what is left of it stays free.
RegionMemory::Piece RegionMemory::TakeFree(int stream, size_t bytes) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->stream != stream || it->piece.bytes < bytes) continue;
    if (best == free_.end() || it->piece.bytes < best->piece.bytes) best = it;
  }
  if (best == free_.end()) return {};
  Piece taken = best->piece;
  if (taken.bytes == bytes) {
    free_.erase(best);
  } else {
    best->piece.data += bytes;
    best->piece.bytes -= bytes;
    taken.bytes = bytes;
  }
  return taken;
}

void RegionMemory::Give(int stream, Piece piece) {
  for (auto it = free_.begin(); it != free_.end();) {
    const Piece& other = it->piece;
    const bool before = other.data + other.bytes == piece.data, behind = piece.data + piece.bytes == other.data;
    if (other.block != piece.block || !(before || behind)) {
      ++it;
      continue;
    }
    if (before) piece.data = other.data;
    piece.bytes += other.bytes;
    it = free_.erase(it);
  }
  free_.push_back({stream, piece});
}

}  // namespace dpiframe
