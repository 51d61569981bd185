#pragma once

#include <optional>
#include <string>

#include "tests/client/gpu/gpu_client.h"

namespace farpage {

// A client whose NIC can write to the fake's devices, and pages 0 and on at its node.
class GpuLandingClient : public GpuClient {
 protected:
  static constexpr size_t kStored = 24;

  ~GpuLandingClient() override { end(); }

  void end() {
    region_ = {};
    sources_.reset();
    tier_.reset();
  }
  OpenOptions with_landing(const std::string& landing) const {
    OpenOptions opened = options();
    opened.gpu.landing = landing;
    return opened;
  }
  void open_with(const cuda::FakeSettings& settings, const OpenOptions& opened) {
    start(settings);
    tier_ = open(opened, nic(nic_));
    sources_.emplace(*tier_, kStored, uint8_t{1});
    put_all(*tier_, *sources_);
  }
  void open_with(const cuda::FakeSettings& settings) { open_with(settings, with_landing("auto")); }
  // Memory for so many pages.
  void open_and_register(const cuda::FakeSettings& settings, size_t pages = kStored) {
    open_with(settings);
    region_ = registered(pages);
    memory_ = address_of(region_);
  }

  Ticket fetch(uint64_t timeout_us = kTimeoutUs) const {
    return tier_->fetch(fetches_to(region_), timeout_us).value();
  }
  bool is_whole() const {
    for (size_t i = 0; i < region_.bytes() / kPageBytes; ++i) {
      if (!has_page(region_, i, *sources_, i)) return false;
    }
    return true;
  }
  bool is_untouched() const {
    return is_filled_with(address_of(region_), kUntouched, region_.bytes());
  }
  NicSettings nic_;
  uint64_t memory_ = 0;  // of the region, for who frees it
  std::optional<Pages> sources_;
  Region region_;
};

}  // namespace farpage
