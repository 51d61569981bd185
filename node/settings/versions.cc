#include "node/settings/versions.h"

#include "pagetable/guards.h"

namespace farpage {
namespace {

constexpr uint64_t kLeaseDriftFraction = 64;

}  // namespace

Versions::Versions(std::shared_ptr<EpochFile> file, uint64_t epoch, uint64_t lease_ns,
                   uint64_t now_ns)
    : file_(std::move(file)), epoch_(epoch), lease_ns_(lease_ns) {
  const uint64_t lease = file_->previous_lease_ns();
  open_ns_ = now_ns + lease + lease / kLeaseDriftFraction;
}

// A failure leaves the longer lease noted: the next run waits longer than it must.
void Versions::opened() {
  if (file_->previous_lease_ns() > lease_ns_) (void)file_->forget_previous_lease(lease_ns_);
}

Result<Version> Versions::next() {
  if (counter_ == kMaxVersionCounter) {
    auto epoch = file_->advance(lease_ns_);
    if (!epoch) return tl::unexpected(epoch.error());
    epoch_ = *epoch;
    counter_ = 0;
  }
  return make_version(epoch_, ++counter_);
}

Result<Version> Versions::next_in(uint64_t epoch) {
  if (counter_ == kMaxVersionCounter || epoch > kMaxEpoch) {
    return fail(Code::kExhausted, "this run has used up its versions: start the node again");
  }
  return make_version(enforced(Guard::kEpochInVersion) ? epoch : 1, ++counter_);
}

}  // namespace farpage
