// Fetches into memory of a GPU whose last way spoils pages, over the fake driver.

#include <gmock/gmock.h>

#include <algorithm>

#include "client/gpu/stream_fence.h"
#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using testing::HasSubstr;

struct Found {
  size_t ready = 0;
  size_t corrupt = 0;
  size_t wrong = 0;  // ready, with other bytes
};

class GpuChecks : public GpuClient {
 protected:
  static constexpr size_t kPages = 24;  // 16 to a block of the bounce memory

  ~GpuChecks() override { sources_.reset(); }

  void open_with(const cuda::FakeSettings& settings, bool check_copies = true) {
    start(settings);
    OpenOptions opened = options();
    opened.gpu.check_copies = check_copies;
    tier_ = open(opened);
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
    region_ = registered(kPages);
  }
  // Pages in a row have one copy, so every other one goes to its place from behind.
  std::vector<PageRequest> scattered() const {
    std::vector<PageRequest> requests;
    for (size_t i = 0; i < kPages; ++i) {
      requests.push_back({key(i), 0, region_.slice(place(i) * kPageBytes, kPageBytes)});
    }
    return requests;
  }
  static size_t place(size_t page) { return kPages - 1 - page; }

  Found fetch_all() const {
    const Ticket ticket = tier_->fetch(scattered(), kTimeoutUs).value();
    ticket.wait();
    Found found;
    for (size_t i = 0; i < kPages; ++i) {
      const PageVerdict& page = ticket.verdicts()[i];
      const bool is_there = has_page(region_, place(i), *sources_, i);
      found.ready += page.verdict == Verdict::kReady;
      found.corrupt += page.reason == Reason::kCorrupt;
      found.wrong += page.verdict == Verdict::kReady && !is_there;
    }
    return found;
  }

  Region region_;
  std::optional<Pages> sources_;
};

TEST_F(GpuChecks, EveryPageIsCheckedWhereItsCopyHasBroughtIt) {
  open_with({});
  const Found found = fetch_all();
  EXPECT_EQ(found.ready, kPages);
  EXPECT_EQ(found.wrong, 0u);
  until([this] { return checked() == kPages; });
  EXPECT_EQ(spoiled(), 0u);
}

TEST_F(GpuChecks, PageThatItsCopySpoilsIsCorrupt) {
  testing::internal::CaptureStderr();
  open_with({.spoil_every = 3});
  const Found found = fetch_all();
  EXPECT_EQ(found.ready, kPages - kPages / 3);
  EXPECT_EQ(found.corrupt, kPages / 3);
  EXPECT_EQ(found.wrong, 0u);
  until([this] { return spoiled() == kPages / 3; });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("other bytes in the memory of cuda:0"));
}

TEST_F(GpuChecks, WithoutThemSuchAPageIsReady) {
  open_with({.spoil_every = 3}, false);
  const Found found = fetch_all();
  EXPECT_EQ(found.ready, kPages);
  EXPECT_EQ(found.wrong, kPages / 3);
  EXPECT_EQ(checked(), 0u);
}

TEST_F(GpuChecks, WithoutKernelsALineSaysThatNothingIsChecked) {
  testing::internal::CaptureStderr();
  start({});
  fake_->fail_call("cuModuleLoadData", 1, cuda::kInvalidValue);
  OpenOptions opened = options();
  tier_ = open(opened);
  sources_.emplace(*tier_, kPages, uint8_t{1});
  put_all(*tier_, *sources_);
  region_ = registered(kPages);
  EXPECT_EQ(fetch_all().ready, kPages);
  EXPECT_EQ(checked(), 0u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("cuda:0 does not check what is copied to it (gpu.check_copies): "));
}

// The kernel reads whole words.
TEST_F(GpuChecks, PageAtAnOddAddressComesUnchecked) {
  open_with({});
  const std::vector<PageRequest> requests = {
      {key(0), 0, region_.slice(2, kPageBytes)},
      {key(1), 0, region_.slice(4 * kPageBytes, kPageBytes)},
      {key(2), 0, region_.slice(6 * kPageBytes + 1, kPageBytes)},
      {key(3), 0, region_.slice(8 * kPageBytes + 4, kPageBytes)}};
  const Ticket ticket = tier_->fetch(requests, kTimeoutUs).value();
  EXPECT_TRUE(are_ready(ticket));
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto at = reinterpret_cast<uint64_t>(requests[i].destination.data);
    EXPECT_TRUE(std::ranges::equal(on_gpu(at), sources_->page(i)));
  }
  until([this] { return checked() == 2; });
}

// So no client of the GPU's memory sees what is still checked.
TEST_F(GpuChecks, PageIsNotReadyBeforeItsCheckHasEnded) {
  open_with({.delay_us = 500});
  for (int round = 0; round < 20; ++round) {
    const Found found = fetch_all();
    EXPECT_EQ(found.ready, kPages);
    EXPECT_EQ(found.wrong, 0u);
  }
}

TEST_F(GpuChecks, PageWhoseCheckIsRefusedIsReadyAndALineSaysSo) {
  testing::internal::CaptureStderr();
  open_with({});
  fake_->fail_call("cuLaunchKernel", 1, cuda::kInvalidValue);
  const Found found = fetch_all();
  EXPECT_EQ(found.ready, kPages);
  EXPECT_EQ(found.wrong, 0u);
  const uint64_t of_the_first = checked();
  EXPECT_LT(of_the_first, kPages);
  EXPECT_EQ(fetch_all().ready, kPages);
  until([&] { return checked() > kPages; });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("pages that were copied to it: farpage_page_crcs: CUDA_ERROR"));
}

TEST_F(GpuChecks, WithoutMemoryForThemALineSaysThatNothingIsChecked) {
  testing::internal::CaptureStderr();
  open_with({.most_host_ranges = 1});
  EXPECT_EQ(fetch_all().ready, kPages);
  EXPECT_EQ(checked(), 0u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("(gpu.check_copies): "));
}

// Work that waits at a fence may have every processor that a check needs.
TEST_F(GpuChecks, FetchWithAFenceIsNotChecked) {
  open_with({});
  const auto fence = tier_->make_fence(0, kPages).value();
  Notification notification;
  notification.fence = &fence->fence();
  const uint64_t before = fake_->calls("cuLaunchKernel");
  EXPECT_TRUE(are_ready(tier_->fetch(scattered(), kTimeoutUs, {}, notification).value()));
  EXPECT_EQ(fake_->calls("cuLaunchKernel"), before);
  EXPECT_EQ(fetch_all().ready, kPages);
  until([this] { return checked() == kPages; });
}

class GpuChecksStraight : public GpuChecks {
 protected:
  GpuChecksStraight() {
    straight_bytes_ = 0;
    NodeOptions node = Cluster::small_options();
    node.reuse_ms = 60'000;
    node.lease_ms = 600'000;
    cluster_.emplace(Path::kShm, node);
  }
  uint64_t straight() const { return metric("farpage_client_straight_pages_total"); }
};

TEST_F(GpuChecksStraight, PageIsCheckedWhereItsCopyHasBroughtIt) {
  open_with({});
  until([this] { return fetch_all().ready == kPages && straight() >= kPages; });
  const uint64_t before = checked();
  EXPECT_EQ(fetch_all().wrong, 0u);
  until([&] { return checked() == before + kPages; });
  EXPECT_EQ(spoiled(), 0u);
}

// It is read again, through pinned memory, whose copy may be spoiled as well.
TEST_F(GpuChecksStraight, PageThatItsCopySpoilsIsNeverReady) {
  open_with({.spoil_every = 5});
  until([this] { return fetch_all().ready > 0 && straight() >= kPages; });
  size_t ready = 0;
  for (int round = 0; round < 10; ++round) {
    const Found found = fetch_all();
    EXPECT_EQ(found.wrong, 0u);
    EXPECT_EQ(found.ready + found.corrupt, kPages);
    ready += found.ready;
  }
  EXPECT_GT(ready, 9 * kPages) << "one that is read again may be good";
  EXPECT_GT(spoiled(), 0u);
}

TEST_F(GpuChecksStraight, PageWhoseCheckIsRefusedIsReady) {
  open_with({});
  until([this] { return fetch_all().ready == kPages && straight() >= kPages; });
  fake_->fail_call("cuLaunchKernel", 1, cuda::kInvalidValue);
  const uint64_t before = straight();
  const Found found = fetch_all();
  EXPECT_EQ(found.ready, kPages);
  EXPECT_EQ(found.wrong, 0u);
  EXPECT_EQ(straight(), before + kPages);
}

TEST_F(GpuChecksStraight, WithoutThemSuchAPageIsReady) {
  open_with({.spoil_every = 5}, false);
  until([this] { return fetch_all().ready == kPages && straight() >= kPages; });
  size_t wrong = 0;
  for (int round = 0; round < 5; ++round) wrong += fetch_all().wrong;
  EXPECT_GT(wrong, 0u);
}

}  // namespace
}  // namespace farpage
