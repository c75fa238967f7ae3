#include "nvrtc_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace dpiframe::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr int kParents = 6;  // site-packages/nvidia/cu13/lib/libcudart.so.13 is the deepest

// site-packages and the like: what lies above the libraries of the process and has a folder "nvidia".
std::vector<fs::path> PackageFolders() {
  std::set<fs::path> folders;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        fs::path path = info->dlpi_name;
        std::error_code ignored;
        for (int i = 0; i < kParents && path.has_relative_path(); ++i) {
          path = path.parent_path();
          if (fs::is_directory(path / "nvidia", ignored)) static_cast<std::set<fs::path>*>(found)->insert(path);
        }
        return 0;
      },
      &folders);
  return {folders.begin(), folders.end()};
}

void* OpenIn(const fs::path& folder, const char* name) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / name, ignored)) return nullptr;
  // NVRTC looks its built-in headers up by their bare name, which a library that is loaded already answers to.
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename();
    if (file.rfind("libnvrtc-builtins.so", 0) == 0 && file.find(".alt.") == file.npos) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  return dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

void* OpenNvrtcLibrary(const char* file) {
  if (file != nullptr) return dlopen(file, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  }
  const std::vector<fs::path> packages = PackageFolders();
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    for (const fs::path& package : packages) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(package / "nvidia", ignored)) {
        if (void* library = OpenIn(entry.path() / "lib", name)) return library;
      }
    }
  }
  return nullptr;
}

}  // namespace dpiframe::cuda
