# farpage_program(NAME SOURCES ... LINKS ...): a program that people run, in bin/ of the build
# folder.

# With a sanitizer, optimizing CLI11's code takes half of the time, and that code runs once.
set(farpage_program_options $<$<CONFIG:Debug>:-O0>)

include(FarpagePrecompiled)
farpage_precompile(farpage_program_pch CLI/CLI.hpp CLI11::CLI11 ${farpage_program_options})

function(farpage_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} CLI11::CLI11)
  target_compile_options(${name} PRIVATE ${farpage_program_options})
  farpage_precompiled(${name} farpage_program_pch)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(FARPAGE_UCX)
    add_dependencies(${name} farpage_ucx)
  endif()
  farpage_strip(${name})
  install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT programs)
endfunction()
