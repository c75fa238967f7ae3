# What printed kernels of FusedElementwise build on is compiled when they are: the library holds it as text.
foreach(part device team)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda/elementwise/${part}.cuh)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${source} ${CMAKE_CURRENT_LIST_DIR}/write_source_text.py)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/write_source_text.py
            ${source} ${DPIFRAME_GENERATED_DIR}/elementwise_${part}.inc
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
