#include "kernel_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace dpiframe::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'d', 'p', 'i', 'k', 'e', 'r', 'n', '1'};
constexpr const char* kSuffix = ".kernel";
constexpr const char* kUnfinished = ".unfinished";
constexpr std::chrono::hours kAbandoned{1};

struct EntryHead {
  char magic[8];
  uint64_t key_bytes;
  uint64_t code_bytes;
  uint64_t checksum;
};

uint64_t Hash(const std::string& text, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

EntryHead HeadOf(const std::string& key, const std::string& code) {
  EntryHead head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.key_bytes = key.size();
  head.code_bytes = code.size();
  head.checksum = Hash(code, Hash(key));
  return head;
}

std::string FolderFromEnvironment() {
  if (const char* own = std::getenv("DPIFRAME_CACHE_DIR")) return own;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/dpiframe/nvrtc";
  const char* const home = std::getenv("HOME");
  return home == nullptr || home[0] == '\0' ? "" : std::string(home) + "/.cache/dpiframe/nvrtc";
}

}  // namespace

KernelCache::KernelCache(std::string folder, uint64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

const KernelCache& KernelCache::Default() {
  static const KernelCache* const cache = new KernelCache(FolderFromEnvironment());
  return *cache;
}

std::string KernelCache::PathOf(const std::string& key) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(Hash(key)),
                static_cast<unsigned long long>(Hash(key, ~Hash(key))));
  return folder_ + "/" + name + kSuffix;
}

std::optional<std::string> KernelCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string entry{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t first = sizeof(EntryHead) + key.size();
  // The whole key stands in the entry, so two keys of one hash do no harm.
  if (entry.size() <= first || entry.compare(sizeof(EntryHead), key.size(), key) != 0) return std::nullopt;
  std::string code = entry.substr(first);
  const EntryHead head = HeadOf(key, code);
  if (std::memcmp(entry.data(), &head, sizeof head) != 0) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return code;
}

void KernelCache::Store(const std::string& key, const std::string& code) const {
  if (folder_.empty()) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  // A name of its own, and then one step that no reader sees the middle of.
  static std::atomic<unsigned> count{0};
  const std::string path = PathOf(key);
  const std::string unfinished =
      path + "." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1)) + kUnfinished;
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    const EntryHead head = HeadOf(key, code);
    file.write(reinterpret_cast<const char*>(&head), sizeof head);
    file.write(key.data(), static_cast<std::streamsize>(key.size()));
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    file.close();
    if (!file) {
      fs::remove(unfinished, failed);
      return;
    }
  }
  fs::rename(unfinished, path, failed);
  if (failed) fs::remove(unfinished, failed);
  DropOldest();
}

void KernelCache::DropOldest() const {
  struct Entry {
    fs::file_time_type time;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& file : fs::directory_iterator(folder_, failed)) {
    const fs::path& path = file.path();
    std::error_code gone;  // another process may drop it at the same time
    const auto time = fs::last_write_time(path, gone);
    const uint64_t bytes = gone ? 0 : fs::file_size(path, gone);
    if (gone) continue;
    if (path.extension() == kSuffix) {
      entries.push_back({time, bytes, path});
      total += bytes;
    } else if (path.extension() == kUnfinished && now - time > kAbandoned) {
      fs::remove(path, gone);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) return;
    fs::remove(entry.path, failed);
    total -= entry.bytes;
  }
}

}  // namespace dpiframe::cuda
