# farpage_cuda_image(TARGET SYMBOL SOURCE.cu): the kernels of a source, built by nvcc for each kind
# of GPU, are bytes in the target: `extern "C" const unsigned char SYMBOL[]`, for
# cuModuleLoadData.
# Nothing else of CUDA's toolkit is needed, and nothing of it when the program runs.
# FARPAGE_HAS_NVCC: it can be called.

set(FARPAGE_CUDA auto CACHE STRING "Build the kernels for GPUs: auto (if nvcc 12.8 or later is there), on or off")
set_property(CACHE FARPAGE_CUDA PROPERTY STRINGS auto on off)

set(FARPAGE_HAS_NVCC OFF)
if(FARPAGE_CUDA STREQUAL "off")
  set(farpage_cuda_reason "FARPAGE_CUDA is off")
elseif(NOT FARPAGE_CUDA MATCHES "^(auto|on)$")
  message(FATAL_ERROR "FARPAGE_CUDA is ${FARPAGE_CUDA}: give auto, on or off")
else()
  find_program(FARPAGE_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(FARPAGE_NVCC)
    execute_process(COMMAND ${FARPAGE_NVCC} --version OUTPUT_VARIABLE farpage_nvcc_says)
    string(REGEX MATCH "release ([0-9.]+)" _ "${farpage_nvcc_says}")
  endif()
  if(NOT FARPAGE_NVCC)
    set(farpage_cuda_reason "no nvcc was found: install CUDA's toolkit, or set FARPAGE_NVCC")
  elseif("${CMAKE_MATCH_1}" VERSION_LESS 12.8)
    set(farpage_cuda_reason "${FARPAGE_NVCC} is of CUDA '${CMAKE_MATCH_1}', and 12.8 is the least")
  else()
    set(FARPAGE_HAS_NVCC ON)
    set(farpage_cuda_reason "by ${FARPAGE_NVCC}, CUDA ${CMAKE_MATCH_1}")
  endif()
  if(FARPAGE_CUDA STREQUAL "on" AND NOT FARPAGE_HAS_NVCC)
    message(FATAL_ERROR "FARPAGE_CUDA is on: ${farpage_cuda_reason}")
  endif()
endif()
if(FARPAGE_HAS_NVCC)
  message(STATUS "Kernels for GPUs: ${farpage_cuda_reason}")
else()
  message(STATUS "No kernels for GPUs: ${farpage_cuda_reason}")
endif()

# One GPU of each major version; PTX is for GPUs that come later.
set(farpage_cuda_targets
  -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90]
  -gencode=arch=compute_100,code=sm_100 -gencode=arch=compute_120,code=sm_120)

function(farpage_cuda_image target symbol source)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.fatbin)
  add_custom_command(OUTPUT ${image}
    COMMAND ${FARPAGE_NVCC} -std=c++20 -O3 --expt-relaxed-constexpr -I${PROJECT_SOURCE_DIR}
      ${farpage_cuda_targets} -MD -MF ${image}.d -MT ${image} -fatbin -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${image}.d
    COMMENT "nvcc ${source}"
    VERBATIM)
  set(holder ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  file(CONFIGURE OUTPUT ${holder} @ONLY CONTENT [=[
asm(R"(.pushsection .rodata
.balign 16
.globl @symbol@
.hidden @symbol@
@symbol@:
.incbin "@image@"
.popsection)");
]=])
  set_source_files_properties(${holder} PROPERTIES OBJECT_DEPENDS ${image})
  target_sources(${target} PRIVATE ${holder})
endfunction()
