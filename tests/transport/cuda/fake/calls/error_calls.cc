// CUDA Driver API, Error Handling.

#include "tests/transport/cuda/fake/entries.h"

namespace farpage::cuda {
namespace {

struct Named {
  int result;
  const char* name;
  const char* text;
};
// As cuda.h names them; the texts are those of the fake.
constexpr Named kNames[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory is registered"},
    {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory is not registered"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

const Named* find(int result) {
  for (const Named& it : kNames) {
    if (it.result == result) return &it;
  }
  return nullptr;
}

}  // namespace

extern "C" {

// "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and *pStr will be
// set to the NULL address." No initialization is needed.
int cuGetErrorName(int error, const char** name) {
  const Named* const it = find(error);
  *name = it != nullptr ? it->name : nullptr;
  return it != nullptr ? kSuccess : kInvalidValue;
}

int cuGetErrorString(int error, const char** text) {
  const Named* const it = find(error);
  *text = it != nullptr ? it->text : nullptr;
  return it != nullptr ? kSuccess : kInvalidValue;
}

}  // extern "C"
}  // namespace farpage::cuda
