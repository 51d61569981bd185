# farpage_program(NAME SOURCES ... LINKS ...): a program that people run, in bin/ of the build folder.

find_program(FARPAGE_OBJCOPY objcopy REQUIRED)

function(farpage_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} CLI11::CLI11)
  # What CLI11 makes takes half of the time to optimize, with a sanitizer, and runs once.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(FARPAGE_UCX)
    # The module takes from the program what both use.
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
    add_dependencies(${name} farpage_ucx)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    # Debuggers and profilers find the debug information beside the program.
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${FARPAGE_OBJCOPY} --only-keep-debug ${name} ${name}.debug
      COMMAND ${FARPAGE_OBJCOPY} --strip-unneeded --add-gnu-debuglink=${name}.debug ${name}
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/bin
      VERBATIM)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()
