# Sets ONNXRUNTIME_INCLUDE_DIR, the folder of onnxruntime_c_api.h: given, the system's, or fetched once and kept.
find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_c_api.h
  HINTS ENV ONNXRUNTIME_INCLUDE_DIR
  PATH_SUFFIXES onnxruntime onnxruntime/core/session)

if(NOT ONNXRUNTIME_INCLUDE_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fetch_onnxruntime_header.py
    OUTPUT_VARIABLE fetched OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE problem ERROR_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${problem}")
  endif()
  set(ONNXRUNTIME_INCLUDE_DIR ${fetched} CACHE PATH "Folder of onnxruntime_c_api.h" FORCE)
endif()
if(NOT EXISTS ${ONNXRUNTIME_INCLUDE_DIR}/onnxruntime_c_api.h)
  message(FATAL_ERROR "ONNXRUNTIME_INCLUDE_DIR is ${ONNXRUNTIME_INCLUDE_DIR}, which holds no onnxruntime_c_api.h")
endif()
message(STATUS "dpiframe: header of ONNX Runtime in ${ONNXRUNTIME_INCLUDE_DIR}")
