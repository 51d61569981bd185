# One target a folder: farpage_target(NAME [APART] SOURCES ... LINKS ...) makes farpage_NAME, with
# the alias farpage::NAME.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(FARPAGE_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

find_program(FARPAGE_CCACHE ccache)
if(FARPAGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # One build folder's objects serve another whose flags are the same: dev's and minimal's, mostly.
  # The sloppiness is what precompiled headers need.
  # A build with sanitizers shares with those of other checkouts alone, so the preprocessor need not
  # run for the search.
  set(depend)
  if(FARPAGE_SANITIZE)
    set(depend CCACHE_DEPEND=true)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${depend} ${FARPAGE_CCACHE})
endif()

find_program(FARPAGE_MOLD mold)
find_program(FARPAGE_LLD ld.lld)
if(FARPAGE_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(FARPAGE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(FARPAGE_SANITIZE)
  add_compile_options(-fsanitize=${FARPAGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FARPAGE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers, g++ 12 takes variables of Boost.Histogram for uninitialized.
    add_compile_options(-Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
endif()

# g++ collects its garbage less often: up to a tenth less time for up to a fifth more memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

# Most of what a file costs is its headers: eight files together cost what three cost apart. dev and
# minimal compile each file by itself, so that each has to include what it uses.
option(FARPAGE_UNITY "Compile the files of a folder eight at a time" OFF)
if(FARPAGE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes all but the first file for headers.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# Another compiler, or other flags, may warn of more: that does not stop a build.
option(FARPAGE_WARNINGS_ARE_ERRORS "Of the compiler; every preset sets it" OFF)
add_compile_options(-Wall -Wextra $<$<BOOL:${FARPAGE_WARNINGS_ARE_ERRORS}>:-Werror>)

# The sources, eight to a file, or as they are: of folders that are `apart`, as their files have
# names or options of their own. CMake's own unity files name the folder of the checkout, so that
# ccache would take none of one checkout's objects for another's.
function(farpage_unity output apart)
  if(apart OR NOT FARPAGE_UNITY)
    set(${output} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(result)
  set(includes "")
  set(files 0)
  set(unities 0)
  foreach(source ${ARGN})
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(IS_ABSOLUTE ${source} OR NOT source MATCHES "[.]cc$" OR definitions)
      list(APPEND result ${source})
      continue()
    endif()
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    string(APPEND includes "#include \"${path}\"\n")
    math(EXPR files "${files} + 1")
    math(EXPR is_full "${files} % 8")
    if(is_full EQUAL 0)
      farpage_unity_file()
    endif()
  endforeach()
  if(NOT includes STREQUAL "")
    farpage_unity_file()
  endif()
  set(${output} ${result} PARENT_SCOPE)
endfunction()

macro(farpage_unity_file)
  set(unity ${CMAKE_CURRENT_BINARY_DIR}/${output}_${unities}.cc)
  file(CONFIGURE OUTPUT ${unity} CONTENT "${includes}" @ONLY)
  list(APPEND result ${unity})
  set(includes "")
  math(EXPR unities "${unities} + 1")
endmacro()

# farpage_NAME is a part of libfarpage.so, and is installed for those who link farpage::client.
function(farpage_library_part name)
  set_target_properties(farpage_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  # Functions of a library are inlined in it all the same.
  target_compile_options(farpage_${name} PRIVATE -fno-semantic-interposition)
  install(TARGETS farpage_${name} EXPORT farpage-client ARCHIVE DESTINATION lib COMPONENT dev)
endfunction()

find_program(FARPAGE_OBJCOPY objcopy REQUIRED)

# Debuggers and profilers find the debug information of a release beside the file.
function(farpage_strip target)
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    set(file $<TARGET_FILE:${target}>)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${FARPAGE_OBJCOPY} --only-keep-debug ${file} ${file}.debug
      COMMAND ${FARPAGE_OBJCOPY} --strip-unneeded --add-gnu-debuglink=${file}.debug ${file}
      VERBATIM)
  endif()
endfunction()

function(farpage_target name)
  cmake_parse_arguments(ARG "APART" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  foreach(link ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
    if(link MATCHES "^farpage::" AND NOT TARGET ${link})
      message(FATAL_ERROR "${name} links ${link}, which stands below it in the layers' order (CMakeLists.txt)")
    endif()
  endforeach()
  farpage_unity(unity_of_${name} "${ARG_APART}" ${ARG_SOURCES})
  add_library(farpage_${name} STATIC ${unity_of_${name}})
  add_library(farpage::${name} ALIAS farpage_${name})
  target_include_directories(farpage_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/farpage>)
  target_compile_features(farpage_${name} PUBLIC cxx_std_20)  # for those who link it from elsewhere
  target_link_libraries(farpage_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(FARPAGE_IN_LIBRARY)
    farpage_library_part(${name})
  endif()
endfunction()
