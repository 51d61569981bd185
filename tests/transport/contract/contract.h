#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/fabric.h"

// The contract of every Fabric. A backend takes part with one file that instantiates the suites
// below which it can hold to:
//
//   INSTANTIATE_TEST_SUITE_P(Shm, FabricContract, testing::Values(backend), backend_name);
namespace farpage::contract {

// Two processes' worth of one backend: the passive side has the targets, the active side the
// initiators.
class Harness {
 public:
  virtual ~Harness() = default;
  virtual Fabric& passive() = 0;
  virtual Fabric& active() = 0;
  virtual const Clock& clock() const = 0;
  // Where the passive side listens, if it does.
  virtual Peer peer() const { return {}; }
  // Lets everything that is still under way happen, as far as the backend can tell.
  virtual void settle() = 0;

 protected:
  // A read over a channel of its own.
  void make_round_trip();
};

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
  bool injects_failures = false;  // an operation may end as failed for no reason
};

inline std::ostream& operator<<(std::ostream& out, const Backend& backend) {
  return out << backend.name;
}
inline std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

// A read or stage channel with a region of the passive side that the active side has imported, and
// memory of the active side.
struct Link {
  std::unique_ptr<Target> target;
  std::unique_ptr<Initiator> initiator;
  Region remote_region;
  RemoteRegion remote;
  std::vector<std::byte> memory;
  Region local;
};

class ContractTest : public testing::TestWithParam<Backend> {
 protected:
  static constexpr uint64_t kPatience = 10 * kSecond;

  void SetUp() override { harness_ = GetParam().make(); }

  uint64_t soon() const { return harness_->clock().now_ns() + kPatience; }

  // As it arrives over a control connection.
  Result<std::unique_ptr<Initiator>> take_up(ChannelOffer offer, uint64_t deadline_ns);
  void connect(ChannelPurpose purpose, Link& link);
  // The local memory is as large, and filled with kUntouched.
  Link make_link(ChannelPurpose purpose, uint64_t bytes);

  // Polls until `count` completions, or immediates, have come or kPatience has passed.
  std::vector<Completion> collect(Initiator& initiator, size_t count);
  std::vector<uint32_t> collect(Target& target, size_t count);
  // Whether `operation` ended as failed or refused.
  bool refused(Initiator& initiator, const Operation& operation);

  std::unique_ptr<Harness> harness_;

 private:
  template <typename Item, typename End>
  std::vector<Item> collect_from(End& end, size_t count);
};

class FabricContract : public ContractTest {};      // everything but what follows
class ClosingContract : public ContractTest {};     // also where completions get lost
class ProtectionContract : public ContractTest {};  // Capabilities::protects_regions (I6)
class PushContract : public ContractTest {};        // Capabilities::pushes
class WaitingContract : public ContractTest {};     // Initiator::descriptor() is not -1
class ChecksumContract : public ContractTest {};    // Capabilities::checksums_landing

inline constexpr std::byte kUntouched{0xEE};

std::byte pattern(uint64_t position, uint64_t salt = 0);
void fill(std::byte* data, uint64_t bytes, uint64_t salt = 0);
// The first byte of `data` that is not as fill() left it, or `bytes`.
uint64_t first_difference(const std::byte* data, uint64_t bytes, uint64_t position,
                          uint64_t salt = 0);
bool untouched(const std::vector<std::byte>& memory);

Operation read_operation(const Link& link, uint64_t remote_offset, uint64_t local_offset,
                         uint64_t bytes, uint64_t tag = 0);
Operation write_operation(const Link& link, uint64_t remote_offset, uint64_t local_offset,
                          uint64_t bytes, uint64_t tag = 0);

// How many post() accepted; its status must be ok.
size_t post_all(Initiator& initiator, std::span<const Operation> operations);
bool all_ok(const std::vector<Completion>& completions);
std::multiset<uint64_t> tags(const std::vector<Completion>& completions);
std::multiset<uint64_t> tags_up_to(uint64_t count);  // 0, 1, …, count - 1

}  // namespace farpage::contract
