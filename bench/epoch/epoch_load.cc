#include "bench/epoch/epoch_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "pagetable/placement.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 10 * kSecond;  // for one answer
constexpr uint64_t kMostKeys = 1'000'000;       // that are drawn from
constexpr uint64_t kBatch = 64;                 // pages a fetch
constexpr double kNsPerS = 1e9;

bool is_primary(const Epoch& epoch, const Placement& placement, const PageKey& key) {
  return epoch.members[placement.replicas(key).primary()].node == LoneMember::self();
}

}  // namespace

void QuestionLoad::begin() {
  counts_ = {};
  last_ns_ = boottime_clock().now_ns();
}

Result<void> QuestionLoad::step() {
  const auto status = member_.client().node_status(member_.client().clock().now_ns() + kPatienceNs);
  if (!status && status.error().code != Code::kUnavailable) return tl::unexpected(status.error());
  if (!status) {
    ++counts_.missed;
    return {};
  }
  const uint64_t now_ns = boottime_clock().now_ns();
  const double took_s = static_cast<double>(now_ns - last_ns_) / kNsPerS;
  last_ns_ = now_ns;
  ++counts_.done;
  counts_.seconds += took_s;
  counts_.longest_s = std::max(counts_.longest_s, took_s);
  return {};
}

Result<std::unique_ptr<FetchLoad>> FetchLoad::open(LoneMember& member, uint64_t page_bytes,
                                                   std::vector<PageKey> keys,
                                                   const std::vector<Epoch>& epochs) {
  keys.resize(std::min<uint64_t>(keys.size(), kMostKeys));
  for (const Epoch& epoch : epochs) {
    const Placement placement(epoch);
    std::erase_if(keys, [&](const PageKey& key) { return !is_primary(epoch, placement, key); });
  }
  if (keys.size() < kBatch) {
    return fail(Code::kInvalid,
                fmt::format("{} pages stay at the node in all epochs, and a fetch takes {}: choose "
                            "more pages, or fewer members",
                            keys.size(), kBatch));
  }
  std::unique_ptr<FetchLoad> load(new FetchLoad(std::move(keys)));
  FetchBenchOptions options;
  options.page_bytes = page_bytes;
  options.batch = kBatch;
  auto connection = FetchConnection::open(member.client(), options, load->keys_, 1);
  if (!connection) return tl::unexpected(connection.error());
  load->connection_ = std::move(*connection);
  load->connection_->warm_up(0, load->keys_.size());
  return load;
}

EpochLoad::Counts FetchLoad::since_opened() const {
  const FetchConnection::Totals& totals = connection_->totals();
  return {totals.ready, totals.fetches * kBatch - totals.ready, totals.fetch_seconds, longest_s_};
}

void FetchLoad::begin() {
  longest_s_ = 0;
  before_ = since_opened();
}

Result<void> FetchLoad::step() {
  const double before_s = connection_->totals().fetch_seconds;
  connection_->fetch_for(0);  // one fetch
  longest_s_ = std::max(longest_s_, connection_->totals().fetch_seconds - before_s);
  if (connection_->totals().wrong_bytes > 0) return fail(Code::kAborted, "wrong bytes of a page");
  return {};
}

EpochLoad::Counts FetchLoad::counts() const {
  const Counts now = since_opened();
  return {now.done - before_.done, now.missed - before_.missed, now.seconds - before_.seconds,
          now.longest_s};
}

}  // namespace farpage
