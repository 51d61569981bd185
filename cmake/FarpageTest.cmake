# farpage_test(NAME [SERIAL] [VARIES] [ONE_THREAD] [PURE] [APART] SOURCES ... LINKS ...): one test
# program a folder, farpage_test_NAME, every case of which is a test of ctest, with the label NAME.

include(GoogleTest)
include(FarpagePrecompiled)

# With sanitizers the compiler takes longer to optimize what GoogleTest's macros make than the tests
# gain by it.
set(farpage_test_options $<$<CONFIG:Debug>:-O0>)

# GoogleTest's headers are a fifth to a half of what a test costs to compile.
farpage_precompile(farpage_test_pch "gmock/gmock.h;gtest/gtest.h" GTest::gmock ${farpage_test_options})

set(farpage_module_folders tests/cli/support tests/bench/scripts bench/scripts lab/scripts python)

# Tests in Python: NAME_test.py in the folder is the test PREFIX.NAME. Its environment names the
# program, whose neighbour is farpage-lab, and the folders of the modules that tests share and that
# the scripts are.
function(farpage_script_tests prefix)
  list(TRANSFORM farpage_module_folders PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE modules)
  list(JOIN modules ":" modules)
  foreach(name ${ARGN})
    add_test(NAME ${prefix}.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py)
    set_tests_properties(${prefix}.${name} PROPERTIES TIMEOUT 300 LABELS program
      ENVIRONMENT "FARPAGE=$<TARGET_FILE:farpage>;FARPAGE_SANITIZE=${FARPAGE_SANITIZE};PYTHONPATH=${modules}")
  endforeach()
endfunction()

# farpage_define(NAME="PATH" IN SOURCE): the path is told to the one source that reads it, before
# the folder's farpage_test(). In all objects of a test it would keep ccache from taking any of them
# for another checkout.
function(farpage_define definition in source)
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${definition})
endfunction()

function(farpage_test name)
  cmake_parse_arguments(ARG "SERIAL;VARIES;ONE_THREAD;PURE;APART" "" "SOURCES;LINKS" ${ARGN})
  # ONE_THREAD: nothing in it can race. PURE: it computes figures from figures, and reads no file:
  # with a sanitizer it takes minutes.
  if(ARG_PURE AND FARPAGE_SANITIZE OR ARG_ONE_THREAD AND FARPAGE_SANITIZE STREQUAL "thread")
    return()
  endif()
  farpage_unity(unity_of_test_${name} "${ARG_APART}" ${ARG_SOURCES})
  add_executable(farpage_test_${name} ${unity_of_test_${name}})
  target_include_directories(farpage_test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(farpage_test_${name} PRIVATE ${farpage_test_options})
  target_link_libraries(farpage_test_${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main rapidcheck_gtest)
  # VARIES: it has other definitions in dev than in minimal. With a precompiled header ccache would
  # take none of the one's objects for the other, and to compile them again costs more than it
  # saves.
  if(FARPAGE_SANITIZE OR NOT ARG_VARIES)
    farpage_precompiled(farpage_test_${name} farpage_test_pch)
  endif()
  # SERIAL: it measures time against real processes, and nothing else may run beside it.
  if(ARG_SERIAL)
    set(serial RUN_SERIAL TRUE)
  endif()
  # It is there against what hangs, and sanitizers slow simulations down as much.
  set(limit_s 120)
  if(FARPAGE_SANITIZE)
    set(limit_s 480)
  endif()
  gtest_discover_tests(farpage_test_${name}
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${limit_s} LABELS ${name} ${serial} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()

# The examples of a document in a language, one after the other, as they are printed. Semicolons and
# brackets would make lists of them, so each stays one string.
function(farpage_examples document language output)
  file(READ ${PROJECT_SOURCE_DIR}/${document} rest)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${document})
  set(source "")
  while("${rest}" MATCHES "```${language}\n([^`]*)```(.*)")
    string(APPEND source "${CMAKE_MATCH_1}")
    set(rest "${CMAKE_MATCH_2}")
  endwhile()
  if("${source}" STREQUAL "")
    message(FATAL_ERROR "${document} has no example in ${language}")
  endif()
  set(${output} "${source}" PARENT_SCOPE)
endfunction()
