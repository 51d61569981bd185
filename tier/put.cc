#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <mutex>
#include <optional>

#include "tier/client.h"
#include "tier/link/fleet_link.h"
#include "tier/link/link_use.h"
#include "tier/node_writes.h"
#include "tier/put_payloads.h"

namespace farpage {

// Shared by the caller and the callbacks of its commits, which may come after the caller has
// stopped to wait.
struct PutState {
  // A source that its put's deadline has left behind.
  struct Lent {
    std::shared_ptr<const Staging::Transfer> transfer;
    std::shared_ptr<Staging> staging;
    std::shared_ptr<NodeSession> link;
    std::weak_ptr<View> view;

    // Looks after the transfer until it has ended or until then.
    void drive(Runtime& runtime, uint64_t until_ns) const {
      if (!staging->drive(until_ns)) {
        runtime.wait_until(until_ns, [this] { return transfer->ended(); });
      }
      const auto given_up = staging->broken() ? view.lock() : nullptr;
      if (given_up != nullptr) link->give_up(given_up);
    }
  };

  std::mutex mutex;
  std::vector<Lent> lent;
  std::vector<PutResult> results;
  std::string why;                  // of the first page that was not acknowledged
  std::vector<LinkUse> unanswered;  // one a commit
  bool closed = false;              // the results have been read; they stay as they are
  uint64_t deadline_ns = 0;
  std::atomic<bool> in_place{false};  // nodes read sources until they have answered

  bool done() {
    std::lock_guard lock(mutex);
    return unanswered.empty() || closed;
  }

  // These two with the lock.
  void say(const std::string& sentence) {
    if (why.empty() && !closed) why = sentence;
  }
  void close() {
    if (!unanswered.empty()) {
      say(unanswered.front().link()->name() +
          " did not answer the commit by the put's deadline; its pages may be stored or not");
    }
    closed = true;
  }

  // One of the transfers that have not ended.
  std::optional<Lent> next_lent() {
    std::vector<Lent> ended;  // outlives the lock: with it may go a link, which calls back
    std::lock_guard lock(mutex);
    const auto first_ended = std::stable_partition(
        lent.begin(), lent.end(), [](const Lent& each) { return !each.transfer->ended(); });
    std::move(first_ended, lent.end(), std::back_inserter(ended));
    lent.erase(first_ended, lent.end());
    return lent.empty() ? std::nullopt : std::optional(lent.front());
  }
};

namespace {

// Between two looks at writes that are late, by who waits for them.
constexpr uint64_t kLateLookNs = kMillisecond;

// Pages that travel in one commit.
struct Group {
  std::span<const uint32_t> pages;  // as places in the requests
  uint64_t bytes = 0;               // of them
};

// Its CRC is counted, and its bytes are taken, by the CPU.
bool fits(const PutRequest& request, uint64_t most_bytes) {
  const Slice& source = request.source;
  return source.bytes > 0 && source.bytes <= most_bytes && source.place.is_host();
}

// The longest run from the first on that one commit takes; empty if the first page fits nowhere.
size_t group_size(std::span<const PutRequest> requests, std::span<const uint32_t> pages,
                  const View& view, uint64_t& bytes) {
  size_t count = 0;
  bytes = 0;
  while (count < pages.size() && count < kMaxCommitPages) {
    const PutRequest& request = requests[pages[count]];
    const uint64_t more = staged_bytes(request);
    if (!fits(request, view.geometry.page_bytes) || more > view.staging->bytes()) break;
    if (count > 0 && bytes + more > view.staging->bytes() / 2) break;
    bytes += more;
    ++count;
  }
  return count;
}

bool takes_puts(const View* view, uint64_t now_ns) {
  return view != nullptr && view->staging != nullptr && view->staging->bytes() > 0 &&
         view->connected && view->valid(now_ns);
}

Error why_it_takes_none(const NodeSession& link, const View* view) {
  std::string why = link.why_unreached();
  if (why.empty() && link.is_coming()) why = link.name() + " has not answered since it was dialled";
  if (why.empty()) {
    const bool has_none = view != nullptr && view->staging == nullptr;
    why =
        link.name() + (has_none ? " has not opened a staging for puts yet" : " takes no puts now");
  }
  return {Code::kUnavailable, std::move(why)};
}

Error why_it_fits_nowhere(const PutRequest& request, const View& view) {
  const Slice& source = request.source;
  if (!source.place.is_host()) return {Code::kInvalid, "a put takes pages of host memory alone"};
  return {Code::kInvalid,
          fmt::format("a page of {} bytes does not fit: the node's pages have 1 to {} bytes, and "
                      "the staging has {} (client.staging_bytes)",
                      source.bytes, view.geometry.page_bytes, view.staging->bytes())};
}

// Waits while earlier puts are in the way: until they are answered, or the writes of those that are
// late have ended.
std::optional<Staging::Segment> allocate(Runtime& runtime, Staging& staging, uint64_t bytes,
                                         uint64_t deadline_ns) {
  std::optional<Staging::Segment> segment;
  while (true) {
    const uint64_t now = runtime.clock().now_ns();
    runtime.wait_until(std::min(deadline_ns, now + kLateLookNs), [&] {
      segment = staging.allocate(bytes);
      return segment.has_value();
    });
    if (segment || staging.broken() || runtime.clock().now_ns() >= deadline_ns) return segment;
    staging.drive(0);
  }
}

// One commit, until it has been answered for good: what is in the staging stays there.
struct Commit : std::enable_shared_from_this<Commit> {
  std::shared_ptr<FleetLink> fleet;
  std::shared_ptr<EpochLease> epoch;  // under which its pages were placed
  std::shared_ptr<NodeSession> link;
  // Not kept: its link keeps this until it has answered.
  std::weak_ptr<View> view;
  std::shared_ptr<Staging> staging;
  std::shared_ptr<PutState> put;
  uint64_t segment = 0;
  uint32_t immediate = 0;
  std::vector<CommitPage> pages;  // that have no result yet
  std::vector<uint32_t> places;   // of them, in the results

  void send() {
    const uint64_t now = fleet->runtime().clock().now_ns();
    const auto node = view.lock();
    if (node == nullptr) return give_up({Code::kTimeout, lost("ended before the commit was sent")});
    if (now >= put->deadline_ns) {
      return give_up(
          {Code::kTimeout, link->name() + " stayed in another epoch until the deadline"});
    }
    CommitRequest request;
    request.immediate = immediate;
    request.patience_ns = patience_of_node(now, put->deadline_ns);
    request.pages = pages;
    request.epoch = epoch->tag;
    node->link->call(std::move(request), [self = shared_from_this()](const Result<Reply>& reply) {
      self->answered(reply);
    });
  }

  // A commit that was refused for its epoch's sake was not begun, and is sent again. One that was
  // begun and then aborted may have been read already: put again, its page would have two versions.
  void answered(const Result<Reply>& reply) {
    const auto* answer = reply ? std::get_if<CommitReply>(&*reply) : nullptr;
    if (answer != nullptr && answer->results.size() == pages.size()) {
      settle(
          [&](size_t page) {
            const CommitResult& result = answer->results[page];
            return result.code == Code::kOtherEpoch ? CommitResult{Code::kUnavailable, 0} : result;
          },
          [&](Code code) { return answer->why.empty() ? refused(code_name(code)) : answer->why; });
    } else {
      const Code code = is_of_other_epoch(reply) ? Code::kOtherEpoch : Code::kTimeout;
      settle(
          [&](size_t) {
            return CommitResult{code, 0};
          },
          [&](Code) { return why_unanswered(reply); });
    }
    if (pages.empty()) return end();
    if (!fleet->has_register()) {
      return give_up(
          {Code::kInvalid, refused("it is in another epoch, and no register says which")});
    }
    fleet->look_again(*link);
    fleet->runtime().after(fleet->view_ns() / kLooksPerView,
                           [self = shared_from_this()] { self->try_again(); });
  }

  // Under the epoch that the register says now. The bytes are in the staging of one node alone.
  void try_again() {
    epoch = fleet->view();
    settle(
        [&](size_t page) {
          const bool stays = &epoch->primary_of(pages[page].key) == link.get();
          return CommitResult{stays ? Code::kOtherEpoch : Code::kUnavailable, 0};
        },
        [&](Code) { return link->name() + " is not the pages' primary in the newest epoch"; });
    if (pages.empty()) return end();
    send();
  }

  std::string lost(const std::string& how) const {
    return "the connection to " + link->name() + " " + how;
  }

  std::string refused(const std::string& why) const {
    return link->name() + " refused the commit: " + why;
  }

  std::string why_unanswered(const Result<Reply>& reply) const {
    if (!reply) return lost("ended before it answered the commit: " + reply.error().message);
    const auto* refusal = std::get_if<Refusal>(&*reply);
    return refused(refusal != nullptr ? refusal->message : "its answer is of another kind");
  }

  // Gives the pages their results; but those for which it is kOtherEpoch stay. `why_of(code)`: why
  // a page was not stored.
  template <typename ResultOf, typename WhyOf>
  void settle(const ResultOf& result_of, const WhyOf& why_of) {
    size_t stored = 0;
    size_t left = 0;
    const size_t before = pages.size();
    {
      const std::lock_guard lock(put->mutex);
      for (size_t page = 0; page < before; ++page) {
        const CommitResult result = result_of(page);
        if (result.code == Code::kOtherEpoch) {
          pages[left] = pages[page];
          places[left++] = places[page];
        } else if (!put->closed) {
          put->results[places[page]] = {result.code, result.version};
          stored += result.code == Code::kOk ? 1 : 0;
          if (result.code != Code::kOk) put->say(why_of(result.code));
        }
      }
    }
    pages.resize(left);
    places.resize(left);
    fleet->counters()->count_puts(stored, before - left - stored);
  }

  // The remaining pages end with `error`.
  void give_up(const Error& error) {
    settle(
        [&](size_t) {
          return CommitResult{error.code, 0};
        },
        [&](Code) { return error.message; });
    end();
  }

  void end() {
    staging->release(segment);
    {
      const std::lock_guard lock(put->mutex);
      put->unanswered.erase(std::ranges::find(put->unanswered, link, &LinkUse::link));
    }
    fleet->runtime().notify();
  }
};

// Pages of one replica set, as places in the requests.
struct Part {
  ReplicaSet set;
  std::vector<uint32_t> pages;
  size_t silent = 0;  // members of the set that cannot be reached
};

bool same(const ReplicaSet& a, const ReplicaSet& b) {
  bool same = a.size() == b.size();
  for (size_t rank = 0; same && rank < a.size(); ++rank) same = a[rank] == b[rank];
  return same;
}

// The requests by replica set, each in its order; last those that a node which cannot be reached
// may hold up.
std::vector<Part> parts_of(const EpochLease& view, std::span<const PutRequest> requests,
                           uint64_t now_ns) {
  std::vector<Part> parts;
  for (uint32_t at = 0; at < requests.size(); ++at) {
    const ReplicaSet set = view.placement.replicas(requests[at].key);
    const auto found =
        std::ranges::find_if(parts, [&](const Part& part) { return same(part.set, set); });
    Part& part = found == parts.end() ? parts.emplace_back(Part{set, {}, 0}) : *found;
    part.pages.push_back(at);
  }
  for (Part& part : parts) {
    for (size_t rank = 0; rank < part.set.size(); ++rank) {
      const NodeSession& link = *view.links[part.set[rank]];
      const auto node = link.view();
      const bool is_tried = !link.is_unused() && !link.is_coming();
      if (is_tried && (node == nullptr || !node->valid(now_ns))) ++part.silent;
    }
  }
  std::ranges::stable_sort(parts, {}, &Part::silent);
  return parts;
}

// Moves a part to the front whose node is not being dialled, and waits for one until the deadline:
// those that are dialled beside it are none the worse.
void bring_dialled_first(FleetLink& fleet, const EpochLease& view, std::span<Part> parts,
                         uint64_t deadline_ns) {
  const auto is_dialled = [&](const Part& part) {
    return !view.links[part.set.primary()]->is_coming();
  };
  if (std::ranges::none_of(parts, is_dialled)) {
    fleet.runtime().wait_until(deadline_ns, [&] { return std::ranges::any_of(parts, is_dialled); });
  }
  const auto next = std::ranges::find_if(parts, is_dialled);
  if (next != parts.end()) std::rotate(parts.begin(), next, next + 1);
}

}  // namespace

Put::Put(Runtime* runtime, std::shared_ptr<PutState> state)
    : runtime_(runtime), state_(std::move(state)) {}

Put& Put::operator=(Put&& other) noexcept {
  const Put former(std::move(*this));
  runtime_ = other.runtime_;
  state_ = std::move(other.state_);
  return *this;
}

Put::~Put() {
  if (state_ != nullptr) wait_released(kNever);
}

// Pages that nodes read in place are lent until the nodes have answered, or until the deadline:
// what one reads later is checked against the CRC of the bytes that were put.
bool Put::released() const {
  if (state_->in_place && !state_->done() && runtime_->clock().now_ns() < state_->deadline_ns) {
    return false;
  }
  if (const auto lent = state_->next_lent()) lent->drive(*runtime_, 0);
  return !state_->next_lent();
}

bool Put::wait_released(uint64_t deadline_ns) {
  if (state_->in_place) {
    runtime_->wait_until(std::min(deadline_ns, state_->deadline_ns),
                         [this] { return state_->done(); });
  }
  while (const auto lent = state_->next_lent()) {
    const uint64_t now = runtime_->clock().now_ns();
    lent->drive(*runtime_, std::min(deadline_ns, now + kLateLookNs));
    if (now >= deadline_ns) return released();
  }
  return released();
}

bool Put::done() const {
  return state_->done();
}

std::span<const PutResult> Put::wait() {
  runtime_->wait_until(state_->deadline_ns, [this] { return state_->done(); });
  std::lock_guard lock(state_->mutex);
  state_->close();
  return state_->results;
}

std::string Put::why() const {
  const std::lock_guard lock(state_->mutex);
  return state_->why;
}

Put Client::put(std::span<const PutRequest> requests, uint64_t deadline_ns) {
  Runtime& runtime = fleet_->runtime();
  auto state = std::make_shared<PutState>();
  state->results.resize(requests.size());
  state->deadline_ns = deadline_ns;
  const auto answer = [&](std::span<const uint32_t> pages, const Error& error) {
    fleet_->counters()->count_puts(0, pages.size());
    std::lock_guard lock(state->mutex);
    for (const uint32_t page : pages) state->results[page] = {error.code, 0};
    state->say(error.message);
  };

  const uint64_t put = fleet_->sources().begin_put();
  const std::shared_ptr<EpochLease> epoch = fleet_->wake_up(deadline_ns);
  std::vector<Part> parts = parts_of(*epoch, requests, runtime.clock().now_ns());
  for (const Part& part : parts) epoch->links[part.set.primary()]->start();
  for (size_t part = 0; part < parts.size(); ++part) {
    bring_dialled_first(*fleet_, *epoch, std::span(parts).subspan(part), deadline_ns);
    const std::shared_ptr<NodeSession>& link = epoch->links[parts[part].set.primary()];
    link->start();  // that it does not rest meanwhile
    std::span<const uint32_t> left = parts[part].pages;
    // A node that is silent leaves the others their share of the time.
    const uint64_t began = std::min(deadline_ns, runtime.clock().now_ns());
    const uint64_t until = began + (deadline_ns - began) / (parts.size() - part);
    while (!left.empty()) {
      const std::shared_ptr<View> view = link->view();
      if (!takes_puts(view.get(), runtime.clock().now_ns())) {
        answer(left, why_it_takes_none(*link, view.get()));
        break;
      }
      Group group;
      const size_t size = group_size(requests, left, *view, group.bytes);
      if (size == 0) {
        answer(left.first(1), why_it_fits_nowhere(requests[left.front()], *view));
        left = left.subspan(1);
        continue;
      }
      group.pages = left.first(size);
      left = left.subspan(size);
      if (runtime.clock().now_ns() >= deadline_ns) {
        answer(group.pages,
               {Code::kTimeout, "no time was left to write the pages to " + link->name()});
        continue;
      }
      PutPayloads payloads(fleet_->sources(), put, *view);
      for (const uint32_t page : group.pages) payloads.add(requests[page]);
      // Also of a put without a staged page: its place in the ring bounds how many are under way.
      const auto segment = allocate(runtime, *view->staging, payloads.bytes(), until);
      if (!segment) {
        if (view->staging->broken()) link->give_up(view);
        answer(group.pages, {Code::kTimeout, "earlier puts hold the staging of " + link->name() +
                                                 " (client.staging_bytes)"});
        continue;
      }

      auto commit = std::make_shared<Commit>();
      if (payloads.any_in_place()) state->in_place = true;
      const std::span<const Slice> staged = payloads.staged();
      commit->pages = std::move(payloads).pages(requests, group.pages, segment->offset);
      Staging::Written written;
      if (!staged.empty()) written = view->staging->write(*segment, staged, until);
      if (!written.status.ok() || runtime.clock().now_ns() >= deadline_ns) {
        if (written.under_way == nullptr) {
          view->staging->release(segment->id);
        } else {
          std::lock_guard lock(state->mutex);
          state->lent.push_back({written.under_way, view->staging, link, view});
        }
        if (view->staging->broken()) link->give_up(view);
        answer(group.pages,
               {Code::kTimeout, "the pages' bytes did not reach " + link->name() + " in time"});
        continue;
      }
      commit->fleet = fleet_;
      commit->epoch = epoch;
      commit->link = link;
      commit->view = view;
      commit->staging = view->staging;
      commit->put = state;
      commit->segment = segment->id;
      commit->immediate = segment->immediate;
      commit->places = {group.pages.begin(), group.pages.end()};
      {
        std::lock_guard lock(state->mutex);
        state->unanswered.emplace_back(link);
      }
      commit->send();
    }
  }
  fleet_->share_sources();
  return Put(&runtime, std::move(state));
}

}  // namespace farpage
