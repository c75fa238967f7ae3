#include "device_words.h"

#include <algorithm>

#include "cuda_error.h"
#include "kernels/cuda/lookup/launch.h"

namespace dpiframe::cuda {

void WriteDeviceWords(uint64_t* to, const uint64_t* words, size_t count, const Launcher& launcher) {
  for (size_t done = 0; done < count; done += kInlineWords) {
    Words part{};
    const size_t size = std::min<size_t>(kInlineWords, count - done);
    std::copy(words + done, words + done + size, part.values);
    CheckCuda(LaunchWriteWords(to + done, part, static_cast<uint32_t>(size), launcher), "addresses can't be written");
  }
}

}  // namespace dpiframe::cuda
