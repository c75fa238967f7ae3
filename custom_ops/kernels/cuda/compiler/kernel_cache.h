// Compiled kernels on disk: any number of processes may read and write the same folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dpiframe::cuda {

class KernelCache {
 public:
  // Keeps nothing where the folder's name is empty.
  explicit KernelCache(std::string folder, uint64_t max_bytes = uint64_t{256} << 20);

  // In the folder that DPIFRAME_CACHE_DIR names (empty: none), else dpiframe/nvrtc in XDG_CACHE_HOME or ~/.cache.
  static const KernelCache& Default();

  // What was stored under a key. An entry that is damaged in any way is none.
  std::optional<std::string> Find(const std::string& key) const;

  // Drops the entries that were used least lately where there are too many bytes. A folder that can't be written to
  // is no error: then nothing is kept.
  void Store(const std::string& key, const std::string& code) const;

 private:
  std::string PathOf(const std::string& key) const;
  void DropOldest() const;

  std::string folder_;
  uint64_t max_bytes_;
};

}  // namespace dpiframe::cuda
