# FusedElementwise's operators stand in one table, which Python reads too; C++ includes what this makes of it.
set(DPIFRAME_GENERATED_DIR ${CMAKE_CURRENT_BINARY_DIR}/generated)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/elementwise_operators.py ${CMAKE_CURRENT_LIST_DIR}/write_elementwise_operators.py)
execute_process(
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/write_elementwise_operators.py
          ${DPIFRAME_GENERATED_DIR}/elementwise_operators.inc
  COMMAND_ERROR_IS_FATAL ANY)
