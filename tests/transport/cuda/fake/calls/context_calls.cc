// CUDA Driver API: Initialization, Version Management, Device Management, Primary Context
// Management, Context Management.

#include <algorithm>
#include <cstring>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

bool is_device(int device) {
  return device >= 0 && device < state().settings.devices;
}

Context context_of(int device) {
  for (const auto& context : state().contexts) {
    if (context->device == device) return context.get();
  }
  return nullptr;
}

bool is_context(Context context) {
  return std::ranges::any_of(state().contexts, [context](const auto& it) {
    return it.get() == context && it->retained > 0;
  });
}

}  // namespace

extern "C" {

// "Currently, the Flags parameter must be 0." Without a device: CUDA_ERROR_NO_DEVICE.
int cuInit(unsigned flags) {
  const Call call("cuInit", Needs::kInitialized);
  if (call.result != kSuccess && call.result != kNotInitialized) return call.result;
  if (flags != 0) return call.misused("flags must be 0");
  if (state().settings.devices == 0) return kNoDevice;
  state().initialized = true;
  return kSuccess;
}

// It "returns in *driverVersion the version of CUDA supported by the driver", before cuInit too.
int cuDriverGetVersion(int* version) {
  const Call call("cuDriverGetVersion", Needs::kInitialized);
  if (call.result != kSuccess && call.result != kNotInitialized) return call.result;
  *version = 13000;
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  const Call call("cuDeviceGetCount", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  *count = state().settings.devices;
  return kSuccess;
}

// An ordinal is "in the range [0, cuDeviceGetCount()-1]".
int cuDeviceGet(int* device, int ordinal) {
  const Call call("cuDeviceGet", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

// The name is NUL-terminated, and cut to `bytes`.
int cuDeviceGetName(char* name, int bytes, int device) {
  const Call call("cuDeviceGetName", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(device)) return kInvalidDevice;
  if (name == nullptr || bytes <= 0) return call.misused("there is no room for a name");
  std::strncpy(name, "Farpage's fake GPU", static_cast<size_t>(bytes));
  name[bytes - 1] = '\0';
  return kSuccess;
}

// By the settings. An attribute that the fake does not have is CUDA_ERROR_INVALID_VALUE, as one
// that an older driver does not know.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const Call call("cuDeviceGetAttribute", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(device)) return kInvalidDevice;
  const FakeSettings& it = state().settings;
  switch (attribute) {
    case 16:   // multiprocessors
    case 99:   // host memory can be registered
    case 116:  // GPUDirect RDMA
      *value = 1;
      return kSuccess;
    case kComputeMajor:
      *value = it.compute_major;
      return kSuccess;
    case 76:  // compute capability, minor
      *value = 0;
      return kSuccess;
    case kSharedBytesPerBlock:
      *value = it.shared_bytes;
      return kSuccess;
    case 98:  // CU_STREAM_WAIT_VALUE_FLUSH
      *value = (it.flush_options & 2) != 0;
      return kSuccess;
    case 102:  // VMM
    case 110:  // and GPUDirect RDMA of it
      *value = it.vmm;
      return kSuccess;
    case 117:
      *value = it.flush_options;
      return kSuccess;
    case 118:
      *value = it.writes_ordering;
      return kSuccess;
    case kReadOnlyRegistration:
      *value = it.read_only_registration;
      return kSuccess;
    case 122:  // 64-bit operations on streams
      *value = it.stream_wait_values;
      return kSuccess;
    case 124:
      *value = it.dma_buf;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

// "Retains the primary context on the device": counted, and not made current.
int cuDevicePrimaryCtxRetain(Context* context, int device) {
  const Call call("cuDevicePrimaryCtxRetain", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(device)) return kInvalidDevice;
  Context found = context_of(device);
  if (found == nullptr) {
    state().contexts.push_back(std::make_unique<ContextTag>());
    found = state().contexts.back().get();
    found->device = device;
  }
  ++found->retained;
  *context = found;
  return kSuccess;
}

// The last release resets the context, whoever still uses it. Here whoever leaves streams or
// memory behind breaks a rule, and the context stays as it was, an error of it too.
int cuDevicePrimaryCtxRelease_v2(int device) {
  const Call call("cuDevicePrimaryCtxRelease_v2", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(device)) return kInvalidDevice;
  const Context context = context_of(device);
  if (context == nullptr || context->retained == 0) {
    return call.misused("the context was not retained", kInvalidContext);
  }
  const State& all = state();
  const bool in_use =
      std::ranges::any_of(all.streams,
                          [&](const auto& it) {
                            return it->context == context && (!it->destroyed || !it->queue.empty());
                          }) ||
      std::ranges::any_of(all.ranges, [&](const auto& it) { return it->context == context; });
  if (context->retained == 1 && in_use) {
    return call.misused("streams or memory of the context are left", kInvalidContext);
  }
  --context->retained;
  return kSuccess;
}

// Whether somebody has retained the primary context. A broken one is active still.
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  const Call call("cuDevicePrimaryCtxGetState", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_device(device)) return kInvalidDevice;
  const Context context = context_of(device);
  *flags = 0;
  *is_active = context != nullptr && context->retained > 0;
  return kSuccess;
}

// "Binds the specified CUDA context to the calling CPU thread"; null: none.
int cuCtxSetCurrent(Context context) {
  const Call call("cuCtxSetCurrent", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (context != nullptr && !is_context(context)) {
    return call.misused("there is no such context", kInvalidContext);
  }
  current_context() = context;
  return kSuccess;
}

// "Pushes the given context onto the CPU thread's stack of current contexts."
int cuCtxPushCurrent_v2(Context context) {
  const Call call("cuCtxPushCurrent_v2", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!is_context(context)) return call.misused("there is no such context", kInvalidContext);
  pushed_contexts().push_back(current_context());
  current_context() = context;
  return kSuccess;
}

// The context that was current before the push is so again. To pop what nobody has pushed breaks a
// rule here.
int cuCtxPopCurrent_v2(Context* context) {
  const Call call("cuCtxPopCurrent_v2", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (pushed_contexts().empty()) return call.misused("nobody has pushed it", kInvalidContext);
  *context = current_context();
  current_context() = pushed_contexts().back();
  pushed_contexts().pop_back();
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
