// The driver seam declares CUDA's calls itself. Where cuda.h is there, the compiler compares them.

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "tests/transport/cuda/fake/later_types.h"
#include "tests/transport/cuda/fake/results.h"
#include "transport/cuda/driver.h"

#ifdef FARPAGE_HAS_CUDA_HEADER
#include <cuda.h>
#endif

namespace farpage {
namespace {

#ifdef FARPAGE_HAS_CUDA_HEADER

// Whether a caller passes both in the same way: integers and enums of one size, and pointers to
// what is the same; a handle is a pointer to some struct.
template <typename Ours, typename Theirs>
constexpr bool same_value() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_const_v<Our> != std::is_const_v<Their>) {
      return false;
    } else if constexpr (std::is_class_v<Our> || std::is_void_v<Our>) {
      return std::is_class_v<Our> == std::is_class_v<Their> &&
             std::is_void_v<Our> == std::is_void_v<Their>;
    } else {
      return same_value<std::remove_cv_t<Our>, std::remove_cv_t<Their>>();
    }
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs> ||
                       std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return false;
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else {
    return sizeof(Ours) == sizeof(Theirs) &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename... Ours, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct SameCall<int (*)(Ours...), CUresult (*)(Theirs...)>
    : std::bool_constant<(same_value<Ours, Theirs>() && ...)> {
};

#define FARPAGE_CUDA_ENTRY(member, symbol, ...)                                       \
  static_assert(SameCall<decltype(cuda::Driver::member), decltype(&::symbol)>::value, \
                "transport/cuda/driver_entries.inc declares " #symbol " otherwise than cuda.h");
#if CUDA_VERSION < 13000
#define FARPAGE_CUDA_OPTIONAL(member, symbol, ...)  // of CUDA 13
#endif
#include "transport/cuda/driver_entries.inc"
#undef FARPAGE_CUDA_ENTRY
// The fake driver's own.
#define FARPAGE_CUDA_ENTRY(member, symbol, ...)                                            \
  static_assert(SameCall<decltype(cuda::LaterDriver::member), decltype(&::symbol)>::value, \
                "the fake declares " #symbol " otherwise than cuda.h");
#include "tests/transport/cuda/fake/later_entries.inc"
#undef FARPAGE_CUDA_ENTRY
#if CUDA_VERSION >= 12080
static_assert(sizeof(cuda::CopyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(cuda::CopyAttributes, source_type) ==
              offsetof(CUmemcpyAttributes, srcLocHint));
static_assert(offsetof(cuda::CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(cuda::CopyAttributes().source_order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
#endif
static_assert(sizeof(cuda::AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(cuda::AllocationProperties, location) ==
              offsetof(CUmemAllocationProp, location));
static_assert(sizeof(cuda::MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(cuda::kWaitFlush == CU_STREAM_WAIT_VALUE_FLUSH);
static_assert(cuda::kWaitEqual == CU_STREAM_WAIT_VALUE_EQ);
static_assert(cuda::kWaitAnd == CU_STREAM_WAIT_VALUE_AND);
static_assert(cuda::kRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(cuda::kRegisterReadOnly == CU_MEMHOSTREGISTER_READ_ONLY);
static_assert(cuda::kReadOnlyRegistration == CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
static_assert(cuda::kNicsReach == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(cuda::kFlushOptions == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(cuda::kWritesOrdering == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(cuda::kDmaBufs == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
static_assert(cuda::kDmaBufDescriptor == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(cuda::kFlushCurrentContext == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(cuda::kFlushToOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(cuda::kPointerContext == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(cuda::kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(cuda::kPointerDevice == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(cuda::kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(cuda::kMemoryTypeHost == CU_MEMORYTYPE_HOST);
static_assert(cuda::kRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda::kEventWithoutTiming == CU_EVENT_DISABLE_TIMING);
static_assert(cuda::kPointerRdmaCapable == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
static_assert(cuda::kPointerMapped == CU_POINTER_ATTRIBUTE_MAPPED);
static_assert(cuda::kPointerRangeBytes == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(cuda::kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(cuda::kMisalignedAddress == CUDA_ERROR_MISALIGNED_ADDRESS);
static_assert(cuda::kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(cuda::kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(cuda::kNotPermitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(cuda::kAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(cuda::kNotRegistered == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
static_assert(cuda::kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(cuda::kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(cuda::kInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(cuda::kNotFound == CUDA_ERROR_NOT_FOUND);

static_assert(cuda::kSuccess == CUDA_SUCCESS && cuda::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(cuda::kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cuda::kSharedBytesPerBlock == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(cuda::kMostDynamicSharedBytes == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

TEST(CudaDriverDeclarations, are_those_of_cuda_h) {}

#else

TEST(CudaDriverDeclarations, are_those_of_cuda_h) {
  GTEST_SKIP()
      << "toolkit: no cuda.h was found: install CUDA's toolkit, or set FARPAGE_CUDA_INCLUDE";
}

#endif

}  // namespace
}  // namespace farpage
