#include "chaos/processes/gpu_frames.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace farpage::processes {
namespace {

constexpr int kDevice = 0;
// Two blocks: a fetch whose copies are late leaves the other one to the next.
constexpr uint64_t kBounceBytes = 512 * kKiB;

}  // namespace

Result<std::unique_ptr<GpuFrames>> GpuFrames::make(Client& client, size_t frames,
                                                   uint64_t page_bytes, bool check_copies,
                                                   std::function<void(std::string)> failed) {
  const auto driver = cuda::start_driver();
  if (!driver) return tl::unexpected(driver.error());
  const auto context = cuda::GpuContext::retain(*driver, kDevice);
  if (!context) return tl::unexpected(context.error());
  auto bytes = cuda::PinnedMemory::make(*context, page_bytes);
  if (!bytes) return tl::unexpected(bytes.error());
  auto made = std::unique_ptr<GpuFrames>(new GpuFrames(
      client, *context, std::move(*bytes), page_bytes, check_copies, std::move(failed)));
  if (auto started = made->start(frames); !started) return tl::unexpected(started.error());
  return made;
}

GpuFrames::GpuFrames(Client& client, std::shared_ptr<const cuda::GpuContext> context,
                     cuda::PinnedMemory bytes, uint64_t page_bytes, bool check_copies,
                     std::function<void(std::string)> failed)
    : context_(std::move(context)),
      driver_(context_->driver()),
      page_bytes_(page_bytes),
      failed_(std::move(failed)),
      bytes_(std::move(bytes)),
      writes_(client, RunnerOptions{}),
      runners_(std::make_unique<GpuRunners>(
          client, writes_, RunnerOptions{},
          GpuOptions{.bounce_bytes = kBounceBytes, .check_copies = check_copies})) {}

Result<void> GpuFrames::start(size_t frames) {
  {
    const cuda::CurrentContext current(*context_);
    int result = driver_.make_stream(&stream_, cuda::kStreamNonBlocking);
    if (result == cuda::kSuccess) result = driver_.allocate(&address_, frames * page_bytes_);
    if (result != cuda::kSuccess) {
      return fail(Code::kSystem, cuda::driver_error(driver_, result, "memory of the GPU"));
    }
  }
  auto region = runners_->register_memory(address_, frames * page_bytes_);
  if (!region) return tl::unexpected(region.error());
  region_ = std::move(*region);
  return {};
}

GpuFrames::~GpuFrames() {
  runners_.reset();
  const cuda::CurrentContext current(*context_);
  if (address_ != 0) driver_.free(address_);
  if (stream_ == nullptr) return;
  driver_.wait_for_stream(stream_);
  driver_.destroy_stream(stream_);
}

Ticket GpuFrames::fetch(std::span<const PageRequest> requests, uint64_t deadline_ns) {
  {
    const cuda::CurrentContext current(*context_);
    expect(driver_.wait_for_stream(stream_), "a wait for frames that are filled");
  }
  GpuRunner& runner = *runners_->of(kDevice);
  Submission* const submission = runner.pool()->take();
  if (submission == nullptr) {
    failed_("a fetch into the GPU found the queue full");
    return {};
  }
  submission->kind = SubmissionKind::kFetch;
  submission->requests.assign(requests.begin(), requests.end());
  submission->deadline_ns = deadline_ns;
  Ticket ticket(runner.pool(), *submission);
  runner.submit(*submission);
  return ticket;
}

void GpuFrames::fill(size_t frame, std::byte value) {
  const cuda::CurrentContext current(*context_);
  expect(driver_.fill(address(frame), static_cast<unsigned char>(value), page_bytes_, stream_),
         "a fill of a frame");
}

void GpuFrames::read(size_t frame, std::span<std::byte> bytes) {
  const cuda::CurrentContext current(*context_);
  expect(driver_.copy_to_host(bytes_.data(), address(frame), page_bytes_, stream_),
         "a copy of a frame");
  expect(driver_.wait_for_stream(stream_), "a wait for a copy of a frame");
  std::copy_n(bytes_.data(), bytes.size(), bytes.data());
}

void GpuFrames::expect(int result, const char* what) {
  if (result != cuda::kSuccess) failed_(cuda::driver_error(driver_, result, what));
}

}  // namespace farpage::processes
