#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/client/gpu/gpu_client.h"

namespace farpage {

// kGpu: by way of pinned memory; kGpuByNic: of the GPU's own, where a network card writes.
enum class Landing : uint8_t { kHost, kGpu, kGpuStraight, kGpuByNic };
using Way = std::tuple<Path, Landing>;

// What every fetch of client/farpage.h promises, wherever its pages land and whatever brings them.
// The bytes of page k in its nth state are known without asking the code under test.
class FetchContract : public GpuClient, public testing::WithParamInterface<Way> {
 protected:
  FetchContract() {
    if (std::get<Landing>(GetParam()) == Landing::kGpuStraight) straight_bytes_ = 0;
    // Copies to the GPU come late, and its streams go on out of step. What a network card writes
    // there is seen after a flush.
    start({.writes_ordering = is_by_nic() ? 0 : 100,
           .flush_options = is_by_nic() ? 1 : 0,
           .seed = 7,
           .delay_us = 100});
    open_with_lease(600'000);  // which does not end on a busy machine
  }
  ~FetchContract() override {
    if (tier_ != nullptr && is_by_nic()) {
      EXPECT_EQ(landed("host"), 0u);
    }
    tier_.reset();  // before the host's memory
  }

  void open_with_lease(uint64_t lease_ms) {
    tier_.reset();
    NodeOptions node = Cluster::small_options();
    node.lease_ms = lease_ms;
    cluster_.emplace(std::get<Path>(GetParam()), node);
    tier_ = open(options(), wrap());
  }
  Connection::WrapFabric wrap() { return is_by_nic() ? nic(nic_) : Connection::WrapFabric(); }

  bool is_by_nic() const { return std::get<Landing>(GetParam()) == Landing::kGpuByNic; }
  bool is_on_gpu() const { return std::get<Landing>(GetParam()) != Landing::kHost; }

  // Registered memory that pages can land in. Each byte is kUntouched.
  Region landing(size_t bytes) {
    if (is_on_gpu()) {
      const size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
      Region region = tier_->register_gpu_memory(pages_on_gpu(pages), bytes).value();
      // The bounce memory, and the node's pool.
      if (straight_bytes_ == 0) until([this] { return fake_->live().host_ranges >= 2; });
      return region;
    }
    return tier_->register_memory(host_memory_.emplace_back(bytes, kUntouched)).value();
  }
  std::vector<std::byte> seen(const Slice& slice) const {
    if (is_on_gpu()) return on_gpu(reinterpret_cast<uint64_t>(slice.data), slice.bytes);
    return {slice.data, slice.data + slice.bytes};
  }
  bool is_untouched(const Slice& slice) const {
    return std::ranges::all_of(seen(slice), [](std::byte b) { return b == kUntouched; });
  }

  static std::vector<std::byte> content(size_t page, uint64_t state, size_t bytes) {
    std::vector<std::byte> content(bytes);
    uint64_t mixed = (page + 1) * 0x9E3779B97F4A7C15 + state * 0xD1B54A32D192ED03;
    for (std::byte& byte : content) {
      mixed = mixed * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::byte>(mixed >> 56);
    }
    return content;
  }
  bool has_page(const Slice& slice, size_t page, uint64_t state = 0) const {
    return seen(slice) == content(page, state, slice.bytes);
  }
  // The version that the node has given it.
  Version put(size_t page, uint64_t state = 0, size_t bytes = kPageBytes) {
    std::vector<std::byte> source = content(page, state, bytes);
    const Region region = tier_->register_memory(source).value();
    const PutRequest request = {key(page), region.slice(0, bytes)};
    const Ticket ticket = tier_->put({&request, 1}, kTimeoutUs).value();
    ticket.wait();
    EXPECT_EQ(ticket.results()[0].code, Code::kOk) << ticket.why();
    EXPECT_TRUE(ticket.wait_released(patience_ns()));
    return ticket.results()[0].version;
  }
  void put_some(size_t count, uint64_t state = 0) {
    for (size_t page = 0; page < count; ++page) put(page, state);
  }

  // It has ended altogether.
  Ticket fetched(std::span<const PageRequest> requests, uint64_t timeout_us = kTimeoutUs) {
    Ticket ticket = tier_->fetch(requests, timeout_us).value();
    ticket.wait();
    EXPECT_TRUE(ticket.wait_released(patience_ns()));
    EXPECT_EQ(ticket.verdicts().size(), requests.size());
    for (const PageVerdict& page : ticket.verdicts()) {
      EXPECT_NE(page.verdict, Verdict::kPending);
      EXPECT_EQ(page.place, Place::kReleased);
      EXPECT_EQ(page.reason == Reason::kNone, page.verdict == Verdict::kReady);
    }
    return ticket;
  }

 private:
  NicSettings nic_;
  std::list<std::vector<std::byte>> host_memory_;
};

inline std::string contract_name(const testing::TestParamInfo<Way>& info) {
  constexpr std::array kPaths = {"shm", "tcp", "tls", "ucx"};
  constexpr std::array kLandings = {"_host", "_gpu", "_gpu_straight", "_gpu_by_nic"};
  return std::string(kPaths[static_cast<size_t>(std::get<Path>(info.param))]) +
         kLandings[static_cast<size_t>(std::get<Landing>(info.param))];
}

inline auto every_way() {
  std::vector<Way> ways = {{Path::kShm, Landing::kHost},        {Path::kShm, Landing::kGpu},
                           {Path::kShm, Landing::kGpuStraight}, {Path::kTcp, Landing::kHost},
                           {Path::kTcp, Landing::kGpu},         {Path::kTls, Landing::kHost},
                           {Path::kTls, Landing::kGpu},         {Path::kShm, Landing::kGpuByNic},
                           {Path::kTcp, Landing::kGpuByNic}};
#ifdef FARPAGE_HAS_UCX
  ways.insert(ways.end(), {{Path::kUcx, Landing::kHost}, {Path::kUcx, Landing::kGpu}});
#endif
  return testing::ValuesIn(ways);
}

}  // namespace farpage
