// Pages that an RDMA device writes to the memory of the fake's GPU. Needs RDMA devices.

#include <gmock/gmock.h>

#include <cerrno>

#include "tests/client/gpu/gpu_client.h"
#include "tests/support/node_process.h"
#include "tests/transport/cuda/nic/soft_dma_bufs.h"

namespace farpage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kPages = 200;

class GpuOverVerbs : public GpuClient {
 protected:
  GpuOverVerbs() { soft_dma_bufs = {.fake = fake_}; }
  ~GpuOverVerbs() override { end(); }

  void end() {
    region_ = {};
    sources_.reset();
    tier_.reset();
  }
  void open_with(const cuda::FakeSettings& settings, const std::string& landing = "auto") {
    start(settings);
    OpenOptions opened;
    opened.node = node_.socket();
    opened.backend = "verbs";
    opened.backends.rdma.devices = "rxe0";
    opened.client.staging_bytes = kMiB;
    opened.client.connect_ms = 20'000;
    opened.gpu.bounce_bytes = 256 * kKiB;
    opened.gpu.landing = landing;
    tier_ = open(opened);
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
  }
  std::string log_of_registering() {
    testing::internal::CaptureStderr();
    region_ = registered(kPages);
    return testing::internal::GetCapturedStderr();
  }
  // Why pages of the fetch are not ready; "": all are.
  static std::string lost(const Ticket& ticket) {
    ticket.wait();
    std::string reasons;
    for (const PageVerdict& page : ticket.verdicts()) {
      if (page.reason != Reason::kNone) reasons += std::string(reason_name(page.reason)) + " ";
    }
    return reasons;
  }
  Ticket fetch() const { return tier_->fetch(fetches_to(region_), kTimeoutUs).value(); }
  bool is_whole() const {
    for (size_t i = 0; i < kPages; ++i) {
      if (!has_page(region_, i, *sources_, i)) return false;
    }
    return true;
  }

  NodeProcess node_{
      FARPAGE_PROGRAM,
      {"--backend", "verbs", "--set", "rdma.devices=rxe0", "--pool-bytes", "8MiB", "--page-bytes",
       std::to_string(kPageBytes), "--set", "node.lease_ms=4000", "--set", "node.reuse_ms=1000"}};
  std::optional<Pages> sources_;
  Region region_;
};

TEST_F(GpuOverVerbs, PagesLandInTheGpusMemory) {
  open_with({});
  EXPECT_THAT(log_of_registering(), HasSubstr("pages land in the GPU's memory (dma-buf)"));
  for (int round = 0; round < 3; ++round) {
    wipe(region_);
    ASSERT_EQ(lost(fetch()), "");
    EXPECT_TRUE(is_whole());
  }
  EXPECT_EQ(landed("dma-buf"), 3 * kPages);
  EXPECT_EQ(landed("host"), 0u);
}

TEST_F(GpuOverVerbs, PagesThatAreNotThereTouchNothing) {
  open_with({});
  region_ = registered(4);
  const Ticket ticket = tier_->fetch(fetches_to(region_, kPages), kTimeoutUs).value();
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kMiss));
  EXPECT_TRUE(is_filled_with(address_of(region_), kUntouched, region_.bytes()));
}

TEST_F(GpuOverVerbs, PagesOfANodeThatIsKilledAreRightOrLost) {
  open_with({});
  region_ = registered(kPages);
  ASSERT_EQ(lost(fetch()), "");
  for (const bool is_there : {true, false}) {
    wipe(region_);
    const Ticket ticket = tier_->fetch(fetches_to(region_), 10'000'000).value();
    if (is_there) node_.kill();
    ticket.wait();
    EXPECT_TRUE(ticket.wait_released(patience_ns()));
    for (size_t i = 0; i < kPages; ++i) {
      const bool is_ready = ticket.verdicts()[i].verdict == Verdict::kReady;
      EXPECT_TRUE(is_ready ? has_page(region_, i, *sources_, i)
                           : is_filled_with(address_of(region_, i), kUntouched));
      EXPECT_TRUE(is_there || !is_ready);
    }
  }
}

TEST_F(GpuOverVerbs, PagesLandInTheHostsMemoryWhereTheDeviceTakesNeither) {
  soft_dma_bufs.error = EOPNOTSUPP;
  open_with({});
  EXPECT_THAT(
      log_of_registering(),
      AllOf(HasSubstr("pages land in the host's memory"), HasSubstr("with the RDMA device rxe0"),
            HasSubstr("Linux 5.12"), HasSubstr("modprobe nvidia-peermem")));
  ASSERT_EQ(lost(fetch()), "");
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(landed("host"), kPages);
  const uint64_t address = address_of(region_);
  end();
  free_on_gpu(address);
  open_with({}, "dma-buf");
  const auto refused = tier_->register_gpu_memory(pages_on_gpu(kPages), kPages * kPageBytes);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("memory of cuda:0 with the RDMA device rxe0"));
}

}  // namespace
}  // namespace farpage
