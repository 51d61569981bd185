# farpage_program(NAME SOURCES ... LINKS ...): a program that people run, in bin/ of the build
# folder.

# With a sanitizer, optimizing CLI11's code takes half of the time, and that code runs once.
set(farpage_program_options $<$<CONFIG:Debug>:-O0>)

if(FARPAGE_PCH)
  set(precompiled ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
  file(CONFIGURE OUTPUT ${precompiled} CONTENT "")
  add_library(farpage_program_pch OBJECT ${precompiled})
  target_compile_options(farpage_program_pch PRIVATE ${farpage_program_options} ${farpage_pch_options})
  target_link_libraries(farpage_program_pch PRIVATE CLI11::CLI11)
  target_precompile_headers(farpage_program_pch PRIVATE <CLI/CLI.hpp>)
endif()

function(farpage_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} CLI11::CLI11)
  target_compile_options(${name} PRIVATE ${farpage_program_options})
  if(FARPAGE_PCH)
    target_compile_options(${name} PRIVATE ${farpage_pch_options})
    target_precompile_headers(${name} REUSE_FROM farpage_program_pch)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(FARPAGE_UCX)
    add_dependencies(${name} farpage_ucx)
  endif()
  farpage_strip(${name})
  install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT programs)
endfunction()
