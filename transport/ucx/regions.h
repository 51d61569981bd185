#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/local_registrations.h"
#include "transport/ucx/worker.h"

namespace farpage::ucx {

// Memory that UCX allocates, so that peers can attach it where they are on this host. All peers may
// read and write it, whatever `access` says.
Result<Region> make_shared_region(std::shared_ptr<Context> context, uint64_t bytes, Access access);
Result<RegionExport> export_shared_region(const Region& region);

// An owner that may have transfers to or from registered local memory under way.
class LocalUser {
 public:
  virtual ~LocalUser() = default;
  virtual bool uses(uint64_t local_key) const = 0;  // called from any thread
  // Ends all its transfers. Not while another thread drives it.
  virtual void break_off() = 0;
};

// The landing places and sources of one fabric. Thread-safe.
class LocalMemory {
 public:
  explicit LocalMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  const std::shared_ptr<LocalRegistrations>& registrations() const { return registrations_; }
  const std::shared_ptr<Context>& context() const { return context_; }

  void add(LocalUser& user);
  void remove(LocalUser& user);
  void end_uses_of(uint64_t local_key);

 private:
  std::shared_ptr<Context> context_;
  const std::shared_ptr<LocalRegistrations> registrations_ = std::make_shared<LocalRegistrations>();
  std::mutex mutex_;
  std::vector<LocalUser*> users_;
};

// The device knows it from here on, so that no transfer registers anything.
Result<Region> register_local_memory(const std::shared_ptr<LocalMemory>& memory,
                                     const MemoryRange& range);

}  // namespace farpage::ucx
