# The CUDA half: compiled where nvcc is on PATH or in the Python wheel nvidia-cuda-nvcc (its headers need the wheel
# nvidia-cuda-cccl); else the library holds the CPU's kernels alone. DPIFRAME_CUDA=OFF leaves it out, ON insists on it.
set(DPIFRAME_CUDA AUTO CACHE STRING "Whether to compile the CUDA kernels: AUTO, ON or OFF")
set(DPIFRAME_CUDA_ARCHITECTURES "" CACHE STRING
  "GPU architectures of the CUDA kernels, as 90 or 80;90; by default 80, 86, 89, 90, 100 and 120")

set(DPIFRAME_WITH_CUDA OFF)
if(DPIFRAME_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    execute_process(
      COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/find_nvcc.py
      OUTPUT_VARIABLE CMAKE_CUDA_COMPILER OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(DPIFRAME_WITH_CUDA ON)
  elseif(NOT DPIFRAME_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "DPIFRAME_CUDA is ON, but no nvcc was found: put it on PATH or `pip install nvidia-cuda-nvcc nvidia-cuda-cccl`")
  endif()
endif()

if(NOT DPIFRAME_WITH_CUDA)
  message(STATUS "dpiframe: CPU kernels only")
  function(dpiframe_add_cuda)
  endfunction()
  return()
endif()

# A compiler without a GPU to look at can't guess an architecture; ours are set on the target below.
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
# Its runtime is the first that loads kernels which were compiled while the program runs.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.8 is needed, or DPIFRAME_CUDA=OFF")
endif()

set(architectures ${DPIFRAME_CUDA_ARCHITECTURES})
if(NOT architectures)
  # The last two also bring PTX, which the driver compiles for newer GPUs.
  set(architectures 80-real 86-real 89-real 90-real 100 120)
endif()
message(STATUS "dpiframe: CPU and CUDA kernels (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${architectures})")

# The kernels: plain pointers, shapes and a stream, no ONNX Runtime. Results must not depend on fused multiply-add.
add_library(dpiframe_cuda_kernels OBJECT
  kernels/cuda/compiler/compile_queue.cc
  kernels/cuda/compiler/kernel_cache.cc
  kernels/cuda/compiler/kernel_loader.cc
  kernels/cuda/compiler/nvrtc.cc
  kernels/cuda/compiler/nvrtc_library.cc
  kernels/cuda/device/device_scope.cc
  kernels/cuda/device/device_words.cc
  kernels/cuda/elementwise/costs.cc
  kernels/cuda/elementwise/elementwise_cuda.cc
  kernels/cuda/elementwise/expressions.cc
  kernels/cuda/elementwise/expressions_reductions.cc
  kernels/cuda/elementwise/grid.cc
  kernels/cuda/elementwise/homes.cc
  kernels/cuda/elementwise/index.cc
  kernels/cuda/elementwise/interpreter.cc
  kernels/cuda/elementwise/interpreter_launch.cu
  kernels/cuda/elementwise/maps.cc
  kernels/cuda/elementwise/printer.cc
  kernels/cuda/elementwise/schedule.cc
  kernels/cuda/elementwise/stages.cc
  kernels/cuda/elementwise/steps.cc
  kernels/cuda/elementwise/text.cc
  kernels/cuda/gemm/gemm_cuda.cc
  kernels/cuda/gemm/launch.cu
  kernels/cuda/gemm/prepare.cu
  kernels/cuda/launch/graph_builder.cc
  kernels/cuda/launch/graph_cache.cc
  kernels/cuda/launch/launcher.cc
  kernels/cuda/launch/side_streams.cc
  kernels/cuda/lookup/bags/bags_launch.cu
  kernels/cuda/lookup/bags/many_bags_launch.cu
  kernels/cuda/lookup/launch.cu
  kernels/cuda/lookup/lookup_cuda.cc
  kernels/cuda/lookup/lookup_cuda_bags.cc
  kernels/cuda/lookup/plan/device_bags.cc
  kernels/cuda/lookup/plan/device_plan.cc
  kernels/cuda/lookup/plan/device_pools.cc
  kernels/cuda/lookup/plan/device_rows.cc
  kernels/cuda/lookup/plan/pool_runs.cc)
include(cmake/elementwise_sources.cmake)
set_target_properties(dpiframe_cuda_kernels PROPERTIES
  CUDA_ARCHITECTURES "${architectures}"
  CUDA_RUNTIME_LIBRARY Static
  CUDA_VISIBILITY_PRESET hidden
  CUDA_STANDARD 17)
target_compile_options(dpiframe_cuda_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --threads=0>)
# CUDAToolkit of find_package is left alone: it wants libraries that nvcc's wheel lacks and nothing here needs.
target_include_directories(dpiframe_cuda_kernels SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_include_directories(dpiframe_cuda_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${DPIFRAME_GENERATED_DIR})

# Compute capability 9.0 has tensor core instructions that only code for 9.0a may use: these kernels are compiled for that
# alone, where the list above has 90.
if(architectures MATCHES "(^|;)90")
  add_library(dpiframe_cuda_wgmma OBJECT kernels/cuda/gemm/wgmma_launch.cu)
  set_target_properties(dpiframe_cuda_wgmma PROPERTIES
    CUDA_ARCHITECTURES 90a-real
    CUDA_RUNTIME_LIBRARY Static
    CUDA_VISIBILITY_PRESET hidden
    CUDA_STANDARD 17)
  target_compile_options(dpiframe_cuda_wgmma PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>)
else()
  add_library(dpiframe_cuda_wgmma OBJECT kernels/cuda/gemm/no_wgmma.cc)
endif()
target_include_directories(dpiframe_cuda_wgmma SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_include_directories(dpiframe_cuda_wgmma PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# The runtime is linked in: a library that needed libcudart would not load on a machine without it.
function(dpiframe_add_cuda ops_library)
  target_sources(${ops_library} PRIVATE
    ops/elementwise/fused_elementwise_cuda.cc
    ops/gemm/fused_gemm_cuda.cc
    ops/lookup/fused_multi_gather_cuda.cc
    ops/region/parallel_region_cuda.cc)
  target_compile_definitions(${ops_library} PRIVATE DPIFRAME_WITH_CUDA)
  target_link_libraries(${ops_library} PRIVATE dpiframe_cuda_kernels dpiframe_cuda_wgmma ${CMAKE_DL_LIBS})

  # The kernels for Python: benchmarks, and tests without ONNX Runtime.
  pybind11_add_module(_cuda_kernels python/cuda_elementwise.cc python/cuda_gemm.cc python/cuda_kernels_module.cc)
  target_link_libraries(_cuda_kernels PRIVATE dpiframe_kernels dpiframe_cuda_kernels dpiframe_cuda_wgmma ${CMAKE_DL_LIBS})
  set_target_properties(${ops_library} _cuda_kernels PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  install(TARGETS _cuda_kernels LIBRARY DESTINATION dpiframe/custom_ops)
endfunction()
