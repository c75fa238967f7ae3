#include "memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dpiframe {
namespace {

constexpr int64_t kLine = 64;                       // bytes of a cache line
constexpr int64_t kBlockTarget = int64_t{1} << 15;  // bytes: what the first cache holds
constexpr int64_t kMostRows = 512;
constexpr double kTaskNanoseconds = 12000;  // of work: several times what waking a thread takes
constexpr double kStepNanoseconds = 8;      // a step's own cost, whatever it does

int64_t Aligned(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

class PhaseMemory {
 public:
  PhaseMemory(Schedule* schedule, int phase) : schedule_(*schedule), phase_(schedule->phases[phase]), index_(phase) {}

  void Plan(int64_t block_rows) {
    FindLives();
    AddBases();
    phase_.block_rows = HasRows(index_) ? (block_rows > 0 ? block_rows : ChooseRows()) : 1;
    PlaceBlocks();
    double cost = kStepNanoseconds * static_cast<double>(phase_.steps.size()) / static_cast<double>(phase_.block_rows);
    for (const Step& step : phase_.steps) cost += step.cost;
    const double rows = std::ceil(kTaskNanoseconds / std::max(cost, 1e-3));
    const int64_t blocks = static_cast<int64_t>(rows) / phase_.block_rows + 1;
    phase_.rows_per_task = blocks * phase_.block_rows;
  }

 private:
  struct Life {
    int first = -1;  // steps
    int last = -1;
  };

  Storage& StorageAt(int storage) { return schedule_.storages[static_cast<size_t>(storage)]; }
  Life& LifeOf(int storage) { return lives_[static_cast<size_t>(storage)]; }

  void FindLives() {
    lives_.resize(schedule_.storages.size());
    for (int s = 0; s < static_cast<int>(phase_.steps.size()); ++s) {
      const Step& step = phase_.steps[static_cast<size_t>(s)];
      for (int k = 0; k < step.operands; ++k) {
        Life& life = LifeOf(step.storages[k]);
        if (life.first < 0) life.first = s;
        life.last = s;
      }
    }
  }

  void AddBases() {
    for (int storage = 0; storage < static_cast<int>(lives_.size()); ++storage) {
      if (LifeOf(storage).first < 0) continue;
      const Storage& used = StorageAt(storage);
      const bool advances = used.kind != StorageKind::kBlock && used.phase == index_ && HasRows(index_);
      phase_.bases.push_back({storage, advances ? used.row_bytes : 0});
    }
  }

  // As many rows as keep what is alive at a time in the first cache. What comes from outside and goes there mostly
  // passes once.
  int64_t ChooseRows() {
    int64_t outside = 0;
    int64_t most_alive = 0;
    for (const Base& base : phase_.bases) outside += base.bytes_per_row;
    for (int s = 0; s < static_cast<int>(phase_.steps.size()); ++s) {
      int64_t alive = 0;
      for (const Base& base : phase_.bases) {
        const Life& life = LifeOf(base.storage);
        const Storage& used = StorageAt(base.storage);
        if (used.kind == StorageKind::kBlock && life.first <= s && s <= life.last) alive += used.row_bytes;
      }
      most_alive = std::max(most_alive, alive);
    }
    int64_t rows = kBlockTarget / std::max<int64_t>(outside / 4 + most_alive, 1);
    rows = std::min(std::max<int64_t>(rows, 1), kMostRows);
    return rows >= 16 ? rows / 16 * 16 : rows;
  }

  // First fit. A result takes the place of an operand that nothing reads any more, where the step allows it.
  void PlaceBlocks() {
    std::vector<int> alive;
    for (int s = 0; s < static_cast<int>(phase_.steps.size()); ++s) {
      const Step& step = phase_.steps[static_cast<size_t>(s)];
      const int result = step.storages[0];
      if (StorageAt(result).kind == StorageKind::kBlock && LifeOf(result).first == s) {
        const int replaced = Overwritten(step, s);
        if (replaced >= 0) {
          StorageAt(result).offset = StorageAt(replaced).offset;
          alive.erase(std::find(alive.begin(), alive.end(), replaced));
        } else {
          StorageAt(result).offset = FreePlace(alive, Bytes(result));
        }
        alive.push_back(result);
        phase_.block_bytes = std::max(phase_.block_bytes, StorageAt(result).offset + Bytes(result));
      }
      alive.erase(std::remove_if(alive.begin(), alive.end(), [&](int other) { return LifeOf(other).last == s; }),
                  alive.end());
    }
  }

  int64_t Bytes(int storage) { return Aligned(StorageAt(storage).row_bytes * phase_.block_rows); }

  int Overwritten(const Step& step, int s) {
    for (int k = 1; k < step.operands; ++k) {
      const int storage = step.storages[k];
      const Storage& read = StorageAt(storage);
      bool free = read.kind == StorageKind::kBlock && LifeOf(storage).last == s &&
                  read.row_bytes == StorageAt(step.storages[0]).row_bytes;
      for (int other = 1; other < step.operands; ++other) {
        free = free && (step.storages[other] != storage || (step.overwrites >> other & 1) != 0);
      }
      if (free) return storage;
    }
    return -1;
  }

  int64_t FreePlace(const std::vector<int>& alive, int64_t bytes) {
    std::vector<int> by_offset = alive;
    std::sort(by_offset.begin(), by_offset.end(),
              [&](int a, int b) { return StorageAt(a).offset < StorageAt(b).offset; });
    int64_t offset = 0;
    for (const int storage : by_offset) {
      if (offset + bytes <= StorageAt(storage).offset) break;
      offset = std::max(offset, StorageAt(storage).offset + Bytes(storage));
    }
    return offset;
  }

  Schedule& schedule_;
  Phase& phase_;
  int index_;
  std::vector<Life> lives_;
};

// What another phase reads, and all that is not made block by block, lasts longer than a block.
void MarkShared(Schedule* schedule) {
  for (int phase = 0; phase < kPhases; ++phase) {
    for (const Step& step : schedule->phases[phase].steps) {
      for (int k = 0; k < step.operands; ++k) {
        Storage& storage = schedule->storages[static_cast<size_t>(step.storages[k])];
        if (storage.kind == StorageKind::kBlock && storage.phase != phase) storage.kind = StorageKind::kShared;
      }
    }
  }
  for (Storage& storage : schedule->storages) {
    if (storage.kind != StorageKind::kBlock || HasRows(storage.phase)) continue;
    storage.kind = StorageKind::kShared;
  }
  for (Storage& storage : schedule->storages) {
    if (storage.kind != StorageKind::kShared || HasRows(storage.phase)) continue;
    int64_t& bytes = storage.phase == kConstants ? schedule->constant_bytes : schedule->call_bytes;
    storage.offset = bytes;
    bytes += Aligned(storage.row_bytes);
  }
}

}  // namespace

void PlanMemory(Schedule* schedule, int64_t block_rows) {
  MarkShared(schedule);
  for (int phase = 0; phase < kPhases; ++phase) PhaseMemory(schedule, phase).Plan(block_rows);
}

}  // namespace dpiframe
