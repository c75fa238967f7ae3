#pragma once

namespace dpiframe::cuda {

// The library's handle, which is never closed: the file of this name or, without a name, what the process has loaded,
// what the system's loader finds, or what is in a folder nvidia/*/lib near a library that the process has loaded, as
// Python's packages lay them out. Null where there is none.
void* OpenNvrtcLibrary(const char* file);

}  // namespace dpiframe::cuda
