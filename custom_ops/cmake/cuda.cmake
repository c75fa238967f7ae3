# CUDA kernels are compiled where there are any and nvcc is there; else the library holds the CPU's alone.
file(GLOB DPIFRAME_CUDA_SOURCES CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/*.cu
  ${CMAKE_CURRENT_SOURCE_DIR}/ops/cuda/*.cc)

set(DPIFRAME_WITH_CUDA OFF)
if(DPIFRAME_CUDA_SOURCES)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(DPIFRAME_WITH_CUDA ON)
  endif()
endif()

if(DPIFRAME_WITH_CUDA)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "dpiframe: CPU and CUDA kernels (architectures ${DPIFRAME_CUDA_ARCHITECTURES})")
elseif(DPIFRAME_CUDA_SOURCES)
  message(STATUS "dpiframe: CPU kernels only: nvcc was not found")
else()
  message(STATUS "dpiframe: CPU kernels only")
endif()

function(dpiframe_add_cuda target)
  if(DPIFRAME_WITH_CUDA)
    target_sources(${target} PRIVATE ${DPIFRAME_CUDA_SOURCES})
    target_compile_definitions(${target} PRIVATE DPIFRAME_WITH_CUDA)
    # The runtime is linked in: a library that needed libcudart would not load on a machine without it.
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
    set_target_properties(${target} PROPERTIES
      CUDA_ARCHITECTURES "${DPIFRAME_CUDA_ARCHITECTURES}"
      CUDA_RUNTIME_LIBRARY Static
      CUDA_STANDARD 17)
  endif()
endfunction()
