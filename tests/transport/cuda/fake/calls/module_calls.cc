// CUDA Driver API, Module Management and Execution Control.

#include <farpage/fence.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "tests/transport/cuda/fake/device/kernels.h"
#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

constexpr uint32_t kFatBinary = 0xBA55ED50;  // what nvcc's images begin with
constexpr int kBulkCopiesFrom = 9;

Module find_module(Context context, Module module) {
  for (const auto& it : state().modules) {
    if (it.get() == module && it->context == context && !it->unloaded) return module;
  }
  return nullptr;
}

// The loaded module that a function is of; null: it is of none.
Module module_of(Context context, Function function) {
  for (const auto& module : state().modules) {
    if (module->context != context || module->unloaded) continue;
    for (auto& [name, it] : module->functions) {
      if (&it == function) return module.get();
    }
  }
  return nullptr;
}

bool is_in_use(Module module) {
  const auto is_its = [module](const Operation& it) { return it.module == module; };
  const auto is_on = [&](const auto& stream) { return std::ranges::any_of(stream->queue, is_its); };
  const auto is_in = [&](const auto& exec) {
    return std::ranges::any_of(exec->graph.operations, is_its);
  };
  const Stream other = module->context->default_stream.get();
  return std::ranges::any_of(state().streams, is_on) ||
         std::ranges::any_of(state().graph_execs, is_in) || (other != nullptr && is_on(other));
}

// The kernel spins; here the stream waits. A fence that is no memory is the kernel's error.
void wait_at_fence(uint64_t address, Operation& operation) {
  const auto range = find_range(state().ranges, address);
  if (range == nullptr || !range->covers(address, sizeof(farpage_fence_words), false)) return;
  auto* const words =
      reinterpret_cast<farpage_fence_words*>(range->memory + (address - range->base));
  operation.ready = [words] {
    const uint64_t begun = std::atomic_ref(words->begun).load(std::memory_order_acquire);
    return std::atomic_ref(words->decided).load(std::memory_order_acquire) >= begun;
  };
  operation.polls = true;
  operation.uses.push_back(range);
}

}  // namespace

extern "C" {

// Any image of nvcc is taken: its kernels are known by their names.
int cuModuleLoadData(Module* module, const void* image) {
  const Call call("cuModuleLoadData", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (image == nullptr) return call.misused("there is no image");
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatBinary) return kInvalidImage;
  state().modules.push_back(std::make_unique<ModuleTag>());
  ModuleTag& made = *state().modules.back();
  made.context = call.context;
  for (const char* name : {"farpage_page_crcs", "farpage_pages_read_twice", "farpage_gather_pages",
                           "farpage_wait_at_fence"}) {
    made.functions[name].name = name;
  }
  if (state().settings.compute_major >= kBulkCopiesFrom) {
    const char* const name = "farpage_pages_through_shared";
    made.functions[name].name = name;
  }
  *module = &made;
  return kSuccess;
}

// CUDA says nothing of kernels that run meanwhile. Here none of the module may, nor be in a graph.
int cuModuleUnload(Module module) {
  const Call call("cuModuleUnload", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (find_module(call.context, module) == nullptr) {
    return call.misused("there is no such module, or it was unloaded", kInvalidHandle);
  }
  if (is_in_use(module)) return call.misused("a stream or a graph still has its kernels");
  module->unloaded = true;
  return kSuccess;
}

// "If no function of that name exists, cuModuleGetFunction() returns CUDA_ERROR_NOT_FOUND."
int cuModuleGetFunction(Function* function, Module module, const char* name) {
  const Call call("cuModuleGetFunction", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (find_module(call.context, module) == nullptr) {
    return call.misused("there is no such module, or it was unloaded", kInvalidHandle);
  }
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = &found->second;
  return kSuccess;
}

// Only CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, up to what the device has.
int cuFuncSetAttribute(Function function, int attribute, int value) {
  const Call call("cuFuncSetAttribute", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (module_of(call.context, function) == nullptr) {
    return call.misused("there is no such function", kInvalidHandle);
  }
  if (attribute != kMostDynamicSharedBytes || value < 0 || value > state().settings.shared_bytes) {
    return call.misused("the attribute is unknown, or more than the device has");
  }
  function->most_shared_bytes = value;
  return kSuccess;
}

// Parameters are copied before it returns. A kernel that touches what it must not ends its context:
// the call itself succeeds, and later ones fail. Blocks have the shape of the kernels.
int cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   Stream stream, void** parameters, void** extra) {
  Call call("cuLaunchKernel", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (module_of(call.context, function) == nullptr) {
    return call.misused("there is no such function", kInvalidHandle);
  }
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != kBlockThreads || block_y != 1 ||
      block_z != 1 || parameters == nullptr || extra != nullptr) {
    return call.misused("the grid is empty, or has not the shape of the kernel");
  }
  if (shared_bytes > static_cast<unsigned>(function->most_shared_bytes)) {
    return call.misused("more shared memory than the function may have");
  }
  Launch launch;
  launch.kernel = function->name;
  launch.blocks = grid_x;
  launch.shared_bytes = shared_bytes;
  launch.seed = state().random();
  if (!take_parameters(launch, parameters)) return kNotFound;
  if (launch.layout.pieces > 0) {
    launch.spoil_every = state().settings.spoil_items_every;
    launch.pages_before =
        std::exchange(state().pages_of_layouts, state().pages_of_layouts + launch.count);
  }
  ++state().calls[launch.kernel];
  const auto run = [launch, context = call.context] {
    DeviceAccess device(context);
    run_kernel(launch, device);
    return device.error();
  };
  Operation operation{.ready = {}, .run = run, .polls = false, .uses = {}};
  operation.module = module_of(call.context, function);
  if (launch.kernel == "farpage_wait_at_fence") wait_at_fence(launch.items, operation);
  enqueue(on, std::move(operation));
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
