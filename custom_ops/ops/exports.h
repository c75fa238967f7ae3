// All that the library exports; exports.map lists the same names for the linker.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstddef>

#pragma GCC visibility push(default)
extern "C" {

OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

const char* dpiframe_version();

// Counts of ids outside their tables in the sessions whose options hold this tag under "dpiframe.session": a JSON list
// of {"node", "lookup", "count"}. Writes it if `size` is large enough; returns the size that it takes, or 0 where this
// library has written no such tag. "dpiframe.library" holds the path of the library that has.
size_t dpiframe_bad_ids_json(const char* tag, char* buffer, size_t size);

// Sets these counts to 0; returns 0 where this library has written no such tag, else 1.
int dpiframe_bad_ids_reset(const char* tag);

}  // extern "C"
#pragma GCC visibility pop
