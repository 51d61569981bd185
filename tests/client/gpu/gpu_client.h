#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/farpage_pages.h"
#include "tests/support/cluster.h"
#include "tests/support/recorded_metrics.h"
#include "tests/transport/cuda/fake/fake_fixture.h"
#include "tests/transport/cuda/nic/nic_fabric.h"

namespace farpage {

// A client of a node, and memory of the fake's first device.
class GpuClient : public FakeDriverTest {
 protected:
  static constexpr std::byte kUntouched{0xA5};  // what the fake fills new memory with
  static constexpr std::byte kOlder{0x5A};
  static constexpr int kOwnRanges = 2;  // of pinned memory: for bounces, and for checks

  ~GpuClient() override {
    tier_.reset();
    for (const uint64_t address : allocated_) EXPECT_EQ(driver_.free(address), cuda::kSuccess);
  }

  OpenOptions options() const {
    OpenOptions options = embedded();
    if (cluster_) {
      options = {};
      options.node = format_address(cluster_->address());
      options.client.staging_bytes = kMiB;
      choose_backend(options);
    }
    options.gpu.bounce_bytes = bounce_bytes_;
    options.gpu.straight_bytes = straight_bytes_;
    return options;
  }
  // Where the node's address does not say it.
  void choose_backend(OpenOptions& options) const {
    if (cluster_->path() == Path::kTls) {
      options.security.tls = true;
      options.security.tls_ca = cluster_->ca_file();
    } else if (cluster_->path() == Path::kUcx) {
      options.backend = "ucx";
      options.backends.ucx.transports = "posix";
    }
  }
  void open_over(Path path, uint64_t lease_ms = Cluster::small_options().lease_ms) {
    NodeOptions node = Cluster::small_options();
    node.lease_ms = lease_ms;
    tier_.reset();  // before its node
    cluster_.emplace(path, node);
    tier_ = open(options());
  }

  // A network card that can write to the fake's devices.
  Connection::WrapFabric nic(NicSettings& settings) const {
    return [this, &settings](Fabric& fabric, const Clock&) {
      return std::make_unique<NicFabric>(fabric, *fake_, settings);
    };
  }
  // Pages that have landed for the GPU, by where.
  uint64_t landed(const std::string& landing) const {
    return metric("farpage_client_gpu_landed_pages_total{landing=" + landing + "}");
  }

  // Memory of the device for so many pages.
  uint64_t pages_on_gpu(size_t count) {
    allocated_.push_back(allocate(count * kPageBytes));
    return allocated_.back();
  }
  void free_on_gpu(uint64_t address) {
    EXPECT_EQ(driver_.free(address), cuda::kSuccess);
    std::erase(allocated_, address);
  }
  // They went with their context.
  void forget_allocations() { allocated_.clear(); }
  Region registered(size_t count) {
    return tier_->register_gpu_memory(pages_on_gpu(count), count * kPageBytes).value();
  }
  static uint64_t address_of(const Region& region, size_t page = 0) {
    return reinterpret_cast<uint64_t>(region.data()) + page * kPageBytes;
  }

  static std::vector<PageRequest> fetches_to(const Region& region, size_t first_key = 0) {
    std::vector<PageRequest> requests;
    for (size_t i = 0; i < region.bytes() / kPageBytes; ++i) {
      requests.push_back({key(first_key + i), 0, region.slice(i * kPageBytes, kPageBytes)});
    }
    return requests;
  }

  static std::vector<PutRequest> puts_from(const Region& region, size_t first_key = 0) {
    std::vector<PutRequest> requests;
    for (size_t i = 0; i < region.bytes() / kPageBytes; ++i) {
      requests.push_back({key(first_key + i), region.slice(i * kPageBytes, kPageBytes)});
    }
    return requests;
  }

  // As work on the device does.
  void write_at(uint64_t address, std::span<const std::byte> bytes) const {
    EXPECT_EQ(fake_->nic_write(address, bytes.data(), bytes.size(), cuda::NicWrite::kOvertakes),
              cuda::kSuccess);
  }
  void write_on_gpu(const Region& region, size_t page, std::span<const std::byte> bytes) const {
    write_at(address_of(region, page), bytes);
  }
  // As it was at first, for the next look.
  void wipe(uint64_t address, uint64_t bytes) const {
    write_at(address, std::vector<std::byte>(bytes, kUntouched));
  }
  void wipe(const Region& region) const { wipe(address_of(region), region.bytes()); }
  // What device work sees.
  std::vector<std::byte> on_gpu(uint64_t address, size_t bytes = kPageBytes) const {
    std::vector<std::byte> seen(bytes);
    EXPECT_EQ(fake_->peek(address, seen.data(), bytes), cuda::kSuccess);
    return seen;
  }
  bool is_filled_with(uint64_t address, std::byte value, size_t bytes = kPageBytes) const {
    return std::ranges::all_of(on_gpu(address, bytes), [=](std::byte b) { return b == value; });
  }
  bool has_page(const Region& region, size_t place, const Pages& pages, size_t page) const {
    return std::ranges::equal(on_gpu(address_of(region, place)), pages.page(page));
  }

  // Counts of this client.
  uint64_t metric(const std::string& name) const {
    RecordedMetrics metrics;
    tier_->client().describe(metrics);
    return static_cast<uint64_t>(metrics.values.at(name));
  }
  uint64_t checked() const { return metric("farpage_client_gpu_checked_pages_total"); }
  uint64_t spoiled() const { return metric("farpage_client_gpu_spoiled_pages_total"); }
  // Until it is so; the test hangs, and ends by its limit, if it never is.
  static void until(const std::function<bool()>& is_so) {
    while (!is_so()) std::this_thread::yield();
  }
  void until_copies_are_under_way() const {
    until([this] { return fake_->live().operations > 0; });
  }
  static bool are(const Ticket& ticket, Verdict verdict, Reason reason = Reason::kNone) {
    ticket.wait();
    return std::ranges::all_of(ticket.verdicts(), [&](const PageVerdict& page) {
      return page.verdict == verdict && page.reason == reason;
    });
  }
  static bool are_ready(const Ticket& ticket) { return are(ticket, Verdict::kReady); }
  static bool is_ready(const Ticket& ticket, size_t page) {
    ticket.wait();
    return ticket.verdicts()[page].verdict == Verdict::kReady;
  }
  uint64_t patience_ns() const { return tier_->clock().now_ns() + kTimeoutUs * kMicrosecond; }

  uint64_t bounce_bytes_ = 64 * kKiB;  // one block of 16 pages
  uint64_t straight_bytes_ = kNever;   // of the shortest page that comes straight
  std::optional<Cluster> cluster_;     // or an embedded node
  std::unique_ptr<Farpage> tier_;

 private:
  std::vector<uint64_t> allocated_;
};

}  // namespace farpage
