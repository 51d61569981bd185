#include "transport/cuda/page_kernels.h"

#ifdef FARPAGE_HAS_CUDA_KERNELS
extern "C" const unsigned char kFarpagePageKernels[];
#endif

namespace farpage::cuda {
namespace {

// The barrier, the shares and the verdict of a block have room besides the page.
constexpr uint32_t kOtherSharedBytes = 256;

constexpr int kBulkCopiesFrom = 9;  // compute capability

Result<const void*> kernel_image() {
#ifdef FARPAGE_HAS_CUDA_KERNELS
  return kFarpagePageKernels;
#else
  return fail(Code::kInvalid,
              "this farpage was built without kernels for GPUs: build it with -DFARPAGE_CUDA=on, "
              "where CUDA's toolkit has nvcc, or keep pages in the host's memory");
#endif
}

}  // namespace

bool has_page_kernels() {
  return kernel_image().has_value();
}

FusedKernel choose_fused_kernel(const DeviceFacts& device, uint32_t longest_bytes) {
  const bool fits = device.shared_bytes >= kOtherSharedBytes &&
                    longest_bytes <= device.shared_bytes - kOtherSharedBytes;
  return device.compute_major >= kBulkCopiesFrom && fits ? FusedKernel::kThroughShared
                                                         : FusedKernel::kReadTwice;
}

Result<PageKernels> PageKernels::load(const Driver& driver, int device) {
  const auto image = kernel_image();
  if (!image) return fail(image.error().code, image.error().message);
  PageKernels loaded;
  loaded.driver_ = driver;
  int shared_bytes = 0;
  int result = driver.device_attribute(&loaded.device_.compute_major, kComputeMajor, device);
  if (result == kSuccess) {
    result = driver.device_attribute(&shared_bytes, kSharedBytesPerBlock, device);
  }
  if (result != kSuccess) {
    return fail(Code::kUnavailable, driver_error(driver, result, "cuDeviceGetAttribute"));
  }
  loaded.device_.shared_bytes = static_cast<uint32_t>(shared_bytes);
  result = driver.load_module(&loaded.module_, *image);
  if (result != kSuccess) {
    return fail(Code::kUnavailable,
                driver_error(driver, result, "the driver takes no kernel of this build"));
  }
  const auto find = [&](Function& function, const char* name) {
    if (result == kSuccess) result = driver.find_function(&function, loaded.module_, name);
  };
  find(loaded.crcs_, "farpage_page_crcs");
  find(loaded.read_twice_, "farpage_pages_read_twice");
  find(loaded.gather_, "farpage_gather_pages");
  find(loaded.wait_at_fence_, "farpage_wait_at_fence");
  if (result == kSuccess && loaded.device_.compute_major >= kBulkCopiesFrom) {
    find(loaded.through_shared_, "farpage_pages_through_shared");
    if (result == kSuccess && loaded.device_.shared_bytes > kOtherSharedBytes) {
      result = driver.set_function_attribute(loaded.through_shared_, kMostDynamicSharedBytes,
                                             shared_bytes - static_cast<int>(kOtherSharedBytes));
    }
  }
  if (result != kSuccess) {
    loaded.unload();
    return fail(Code::kUnavailable, driver_error(driver, result, "cuModuleGetFunction"));
  }
  return loaded;
}

void PageKernels::unload() {
  if (module_ != nullptr) driver_.unload_module(module_);
  module_ = nullptr;
}

Result<void> PageKernels::crcs(Stream stream, const PageBatch& batch) const {
  PageBatch given = batch;
  void* parameters[] = {&given.items, &given.count, &given.out};
  const unsigned blocks = (batch.count + kCrcPagesPerBlock - 1) / kCrcPagesPerBlock;
  return start(crcs_, "farpage_page_crcs", blocks, 0, stream, parameters);
}

Result<void> PageKernels::check_and_scatter(Stream stream, const PageBatch& batch) const {
  return check_and_scatter(choose_fused_kernel(device_, batch.longest_bytes), stream, batch);
}

Result<void> PageKernels::check_and_scatter(FusedKernel kernel, Stream stream,
                                            const PageBatch& batch) const {
  PageBatch given = batch;
  void* parameters[] = {&given.items, &given.count, &given.layout, &given.out};
  if (kernel == FusedKernel::kReadTwice) {
    return start(read_twice_, "farpage_pages_read_twice", batch.count, 0, stream, parameters);
  }
  return start(through_shared_, "farpage_pages_through_shared", batch.count, batch.longest_bytes,
               stream, parameters);
}

int PageKernels::gather(Stream stream, const PageBatch& batch) const {
  PageBatch given = batch;
  void* parameters[] = {&given.items, &given.count, &given.layout, &given.out};
  return launch(gather_, batch.count, 0, stream, parameters);
}

Result<void> PageKernels::wait_at_fence(Stream stream, uint64_t fence) const {
  void* parameters[] = {&fence};
  return start(wait_at_fence_, "farpage_wait_at_fence", 1, 0, stream, parameters);
}

Result<void> PageKernels::start(Function function, const char* name, unsigned blocks,
                                unsigned shared_bytes, Stream stream, void** parameters) const {
  const int result = launch(function, blocks, shared_bytes, stream, parameters);
  if (result == kSuccess) return {};
  return fail(Code::kUnavailable, driver_error(driver_, result, name));
}

int PageKernels::launch(Function function, unsigned blocks, unsigned shared_bytes, Stream stream,
                        void** parameters) const {
  if (blocks == 0) return kSuccess;
  return driver_.launch(function, blocks, 1, 1, kBlockThreads, 1, 1, shared_bytes, stream,
                        parameters, nullptr);
}

}  // namespace farpage::cuda
