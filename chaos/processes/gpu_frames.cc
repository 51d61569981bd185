#include "chaos/processes/gpu_frames.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"

namespace farpage::processes {
namespace {

constexpr int kDevice = 0;
constexpr size_t kPieces = 4;  // of a block
// Two blocks: a fetch whose copies are late leaves the other one to the next.
constexpr uint64_t kBounceBytes = 512 * kKiB;

}  // namespace

Result<std::unique_ptr<GpuFrames>> GpuFrames::make(Client& client, size_t frames,
                                                   uint64_t page_bytes, Destination destination,
                                                   std::function<void(std::string)> failed) {
  const auto driver = cuda::start_driver();
  if (!driver) return tl::unexpected(driver.error());
  const auto context = cuda::GpuContext::retain(*driver, kDevice);
  if (!context) return tl::unexpected(context.error());
  auto bytes = cuda::PinnedMemory::make(*context, page_bytes);
  if (!bytes) return tl::unexpected(bytes.error());
  auto made = std::unique_ptr<GpuFrames>(new GpuFrames(client, *context, std::move(*bytes), frames,
                                                       page_bytes, destination, std::move(failed)));
  if (auto started = made->start(); !started) return tl::unexpected(started.error());
  return made;
}

GpuFrames::GpuFrames(Client& client, std::shared_ptr<const cuda::GpuContext> context,
                     cuda::PinnedMemory bytes, size_t frames, uint64_t page_bytes,
                     Destination destination, std::function<void(std::string)> failed)
    : context_(std::move(context)),
      driver_(context_->driver()),
      frames_(frames),
      page_bytes_(page_bytes),
      pieces_(destination == Destination::kGpuBlocks ? kPieces : 1),
      piece_bytes_(page_bytes / pieces_),
      failed_(std::move(failed)),
      bytes_(std::move(bytes)),
      writes_(client, RunnerOptions{}),
      runners_(std::make_unique<GpuRunners>(
          client, writes_, RunnerOptions{},
          GpuOptions{.bounce_bytes = kBounceBytes,
                     .check_copies = destination != Destination::kGpuUnchecked})) {}

Result<void> GpuFrames::start() {
  {
    const cuda::CurrentContext current(*context_);
    int result = driver_.make_stream(&stream_, cuda::kStreamNonBlocking);
    if (result == cuda::kSuccess) result = driver_.allocate(&address_, frames_ * page_bytes_);
    if (result != cuda::kSuccess) {
      return fail(Code::kSystem, cuda::driver_error(driver_, result, "memory of the GPU"));
    }
  }
  std::vector<uint64_t> pieces;
  for (size_t piece = 0; piece < pieces_; ++piece) pieces.push_back(address(piece, 0));
  auto region = pieces_ == 1 ? runners_->register_memory(address_, frames_ * page_bytes_)
                             : runners_->register_blocks({.pieces = pieces,
                                                          .piece_bytes = piece_bytes_,
                                                          .block_stride = piece_bytes_,
                                                          .count = frames_});
  if (!region) return tl::unexpected(region.error());
  region_ = std::move(*region);
  return {};
}

GpuFrames::~GpuFrames() {
  runners_.reset();
  const cuda::CurrentContext current(*context_);
  if (stream_ != nullptr) driver_.wait_for_stream(stream_);  // fills of frames may be there still
  if (address_ != 0) driver_.free(address_);
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
}

void GpuFrames::await_fills() {
  const cuda::CurrentContext current(*context_);
  expect(driver_.wait_for_stream(stream_), "a wait for frames that are filled");
}

Ticket GpuFrames::fetch(std::span<const PageRequest> requests, uint64_t deadline_ns) {
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
  for (size_t piece = 0; piece < pieces_; ++piece) {
    expect(driver_.fill(address(piece, frame), static_cast<unsigned char>(value), piece_bytes_,
                        stream_),
           "a fill of a frame");
  }
}

void GpuFrames::read(size_t frame, std::span<std::byte> bytes) {
  const cuda::CurrentContext current(*context_);
  for (size_t piece = 0; piece < pieces_; ++piece) {
    expect(driver_.copy_to_host(bytes_.data() + piece * piece_bytes_, address(piece, frame),
                                piece_bytes_, stream_),
           "a copy of a frame");
  }
  expect(driver_.wait_for_stream(stream_), "a wait for a copy of a frame");
  std::copy_n(bytes_.data(), bytes.size(), bytes.data());
}

void GpuFrames::expect(int result, const char* what) {
  if (result != cuda::kSuccess) failed_(cuda::driver_error(driver_, result, what));
}

}  // namespace farpage::processes
