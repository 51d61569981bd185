# farpage_precompile(NAME HEADERS LINK OPTIONS...): NAME is the precompiled HEADERS, with what LINK
# brings, of targets that are compiled with these options. The first header includes the others.
# farpage_precompiled(TARGET NAME): TARGET takes it.

# The headers that cost the most, and nothing else, so that what is precompiled hides no missing
# include but theirs; scripts/lint goes without it.
option(FARPAGE_PCH "Precompile GoogleTest's headers for tests, and CLI11's for programs" ON)

function(farpage_precompile name headers link)
  if(NOT FARPAGE_PCH)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # What clang precompiles names its source, and CMake's would be in this build folder: ccache
    # would take none of one checkout's objects for another's. So the header itself is the source.
    list(GET headers 0 header)
    find_file(FARPAGE_HEADER_OF_${name} ${header} REQUIRED)
    set(source ${FARPAGE_HEADER_OF_${name}})
    set_source_files_properties(${source} PROPERTIES LANGUAGE CXX)
    set(options "SHELL:-x c++-header -Xclang -fno-pch-timestamp")
  else()
    set(source ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    set(options ${farpage_pch_options})
  endif()
  add_library(${name} OBJECT ${source})
  target_compile_options(${name} PRIVATE ${ARGN} ${options})
  target_link_libraries(${name} PRIVATE ${link})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Who takes it waits for a custom target, not for an object.
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.pch)
    add_custom_command(OUTPUT ${file} COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_OBJECTS:${name}> ${file}
      DEPENDS $<TARGET_OBJECTS:${name}> VERBATIM)
    add_custom_target(${name}_file DEPENDS ${file})
    set_property(TARGET ${name}_file PROPERTY FARPAGE_FILE ${file})
  else()
    list(TRANSFORM headers REPLACE "(.+)" "<\\1>")
    target_precompile_headers(${name} PRIVATE ${headers})
  endif()
endfunction()

function(farpage_precompiled target name)
  if(NOT FARPAGE_PCH)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    get_property(file TARGET ${name}_file PROPERTY FARPAGE_FILE)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch ${file}>")
    add_dependencies(${target} ${name}_file)
  else()
    target_compile_options(${target} PRIVATE ${farpage_pch_options})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# ccache keeps what g++ compiles with a precompiled header only with this option.
set(farpage_pch_options)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(farpage_pch_options -fpch-preprocess)
endif()
