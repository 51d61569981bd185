#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "integrity/recovery.h"
#include "pagetable/guards.h"
#include "tier/fetch/index_reads.h"
#include "tier/fetch/lane.h"
#include "tier/fetch/lane_peer.h"
#include "tier/fetch/operation_tag.h"
#include "tier/fetch/page_in_flight.h"
#include "tier/fetch/payload_checks.h"
#include "tier/link/fleet_link.h"
#include "tier/request/page_request.h"
#include "tier/stats/lane_counters.h"
#include "transport/page_pool.h"

namespace farpage {

// Drives fetches through a window of pages in flight. One is free again only when every operation
// of it has ended, so a page's destination never has two (protocol rule 4). A hedge is a second one
// for a page, the twin of the first, and lands in a place of the lane's own.
//
// One turn of the loop, in lane_engine.cc, in this order; nothing goes back:
//
//   collect    poll each channel in use, and judge what has landed      (memory alone)
//   check      payloads, where the backend has counted no CRC           (begun as one batch)
//   conclude   look at the clock: verdicts, or what the page needs next
//   keep_house deadlines, leases, epochs, paths, hedges                 (when one is due)
//   begin      pages that go on, that wait, and new ones, by deadline   (write operations)
//   post       one batch for each channel
class LaneEngine {
 public:
  // Waits for one of the nodes to open a path.
  static Result<std::unique_ptr<LaneEngine>> create(const std::shared_ptr<FleetLink>& fleet);
  ~LaneEngine();

  void reserve_fetches(uint32_t more);
  FetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                    uint64_t deadline_ns, const FetchOptions& options);
  void recycle(FetchState* fetch);
  // False: nothing moved, so that there is something to wait for.
  bool progress();
  void wait_done(FetchState* fetch);
  bool wait_released(FetchState* fetch, uint64_t deadline_ns);
  void wait_moved(uint64_t until_ns);
  // Of several lanes of one thread: until something may have moved in one of them.
  static void wait_moved(std::span<LaneEngine* const> lanes, uint64_t until_ns);
  void allow_interrupts() { allows_interrupts_ = true; }
  void copy_straight(PageCopier& copier);
  void check_with(CheckerFactory& checkers) { checks_.use(checkers); }
  void interrupt();  // any thread

  bool look_up(std::span<const PageKey> keys, std::span<KeyAnswer> answers);
  QuestionState* ask(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                     uint64_t deadline_ns);
  void recycle(QuestionState* question) { index_reads_.recycle(question); }
  void wait_done(QuestionState* question);

  LaneStats stats() const { return counters_.stats(); }
  VerdictCounts verdicts() const { return counters_.verdicts(); }
  const std::byte* mapped_payload(const PageKey& key) const;

 private:
  static constexpr uint32_t kWindow = Lane::kWindow;
  static constexpr uint32_t kPlaces = Lane::kPlaces;
  static constexpr size_t kPollBatch = 64;
  // As many bytes as are landed before verdicts are given: more would make the first of them late.
  static constexpr uint64_t kPollBytes = 256 * kKiB;
  static constexpr uint16_t kNoTwin = PageDetails::kNoTwin;
  // Of one step of a page: its buckets, or header and payload where these lie apart. A channel has
  // room for those of a window, and no node is asked for more pages at one time.
  static constexpr size_t kMostReads = 2;
  static constexpr uint8_t kHeaderPart = 1;   // also of a read that brings both
  static constexpr uint8_t kPayloadPart = 4;  // no bucket's
  // An operation that is refused this often would be refused for ever.
  static constexpr uint8_t kMostFailures = 3;
  static constexpr uint8_t kNoRank = kMaxReplicas;  // of one that was asked in an epoch before

  // Memory that reads land in, besides the destinations; registered.
  struct Landing {
    PageHeader headers[kPlaces];
    Bucket buckets[kPlaces][2];
    Bucket asked[IndexReads::kPlaces][2];
  };

  // The tries that led to a verdict.
  struct Tries {
    uint8_t looks = 0;
    uint8_t attempts = 0;
    uint8_t replicas = 0;
    uint32_t payload_crc = 0;           // of a page that is ready
    const std::byte* landed = nullptr;  // in a place of the lane's
  };

  // Pages of one fetch that became ready one after the other, and are counted together.
  struct ReadyPages {
    FetchState* fetch = nullptr;
    uint32_t count = 0;
    uint64_t bytes = 0;
  };

  // Pages with places that move nothing, as their nodes are silent or out of reach.
  struct Parked {
    size_t pages = 0;
    uint64_t bytes = 0;
  };

  // That nothing has begun and nothing has ended, as far as waits saw.
  struct Stillness {
    uint64_t since_ns = 0;
    uint32_t steps = 0;
    size_t in_flight = 0;
  };

  LaneEngine(std::shared_ptr<FleetLink> fleet, Mapping memory, Region region, PagePool places);

  Landing& landing() const { return *reinterpret_cast<Landing*>(memory_.data()); }
  Slice landing_slice(void* part, uint64_t bytes) const {
    return {static_cast<std::byte*>(part), bytes, landing_key_};
  }
  // Where its payload lands.
  const Slice& destination(const PageInFlight& page) const {
    return page.is.hedge && enforced(Guard::kOneLandingOneAttempt) ? details_[page.index].landing
                                                                   : page.request->destination;
  }
  PageDetails& details_of(PageInFlight& page);
  PageLookup& lookup_of(PageInFlight& page);
  // How many times it was looked at, at its peer.
  uint8_t looks_at(const PageInFlight& page) const {
    if (page.is.looked_up) return details_[page.index].lookup.reads();
    return page.is.whole ? uint8_t{1} : uint8_t{0};
  }
  uint16_t twin_of(const PageInFlight& page) const {
    return page.is.detailed ? details_[page.index].twin : kNoTwin;
  }

  // lane_engine.cc: the loop.
  bool turn();
  void look_at_clock();
  // Somebody drives the lane, after `busy_ns` of work for it.
  void note_presence(uint64_t busy_ns) {
    if (!has_waited_ && now_ns_ - turned_ns_ > TransferWindow::kQueueNs + busy_ns) {
      present_ns_ = now_ns_;
    }
    has_waited_ = false;
    turned_ns_ = now_ns_;
  }
  size_t collect();
  size_t collect(LanePeer& peer);
  size_t end_operations(LanePeer& peer);
  void complete(LanePeer& peer, const Completion& completion);
  void operation_ended(PageInFlight& page, uint8_t part, uint32_t crc);
  bool is_located(const PageInFlight& page) const;
  bool has_payload(PageInFlight& page, uint32_t crc);
  bool is_whole(PageInFlight& page, uint32_t crc);
  size_t judge();
  size_t check_and_conclude();
  void conclude();
  void conclude(PageInFlight& page);
  void conclude_other(PageInFlight& page);
  void released(PageInFlight& page);
  void count_read(PageInFlight& page);
  void read_landed(PageInFlight& page);
  bool advance();
  void drop_ended();
  bool begin();
  void begin_pages();
  void begin_page(FetchState& fetch, uint32_t page, bool is_warm);
  bool post();
  bool post(LanePeer& peer);
  void lost(LanePeer& peer);

  // lane_checks.cc: payloads that are being checked.
  void begin_check(PageInFlight& page);
  size_t check();
  uint64_t next_check_ns() const;
  void check_ended(const CheckEnd& end);
  void set_aside(PageInFlight& page);
  void conclude_checked();
  void conclude_checked(PageInFlight& page);

  // ... and pages that are copied from where they lie in a node's memory.
  void open_source(LanePeer& peer);
  bool goes_straight(const PageInFlight& page) const;
  void begin_copy(PageInFlight& page);
  bool stands_as_read(PageInFlight& page);
  static const std::byte* straight_landing(const PageInFlight& page) {
    return reinterpret_cast<const std::byte*>(page.request->straight_to);
  }

  // lane_reads.cc: what a page reads next.
  PageInFlight& take_page(FetchState& fetch, uint32_t page);
  void free_page(PageInFlight& page);
  void free_plain(PageInFlight& page);
  void forget(PageInFlight& page);
  void look_up(PageInFlight& page);
  void go_on(PageInFlight& page);
  void step_later(PageInFlight& page);
  void begin_steps();
  void begin_step(PageInFlight& page);
  void read_next(PageInFlight& page);
  Operation& next_read(LanePeer& peer);
  Operation& begin_read(PageInFlight& page, uint8_t part);
  void read_page(PageInFlight& page);
  void read_together(PageInFlight& page);
  void read_otherwise(PageInFlight& page);
  void read_index(PageInFlight& page);

  // lane_verdicts.cc
  void became_ready(PageInFlight& page);
  void plain_ready(PageInFlight& page);
  void became_ready_with_details(PageInFlight& page);
  void settle_twin(PageInFlight& page, Version version);
  void settle(PageInFlight& page, Reason reason);
  void settle_ready(FetchState& fetch, uint32_t page, Version version, const PageInFlight& first,
                    const PageInFlight& whole, const std::byte* landed = nullptr);
  void settle_page(FetchState& fetch, uint32_t page, Reason reason, const PageInFlight* first);
  Tries tries_of(const PageInFlight* first) const;
  void give_verdict(FetchState& fetch, uint32_t page, Reason reason, Version version,
                    const Tries& tries);
  void count_ready() {
    if (ready_.fetch != nullptr) count_them_apart();
  }
  void count_them_apart();
  void count_them();
  void count_recompute(FetchState& fetch, const PageVerdict& verdict);

  // lane_recovery.cc: which replica, and what when it came to nothing.
  LanePeer& peer_at(const PageInFlight& page, unsigned rank) const {
    return *by_member_[single_ ? 0 : details_[page.index].replicas[rank]];
  }
  PageHistory& history_of(PageInFlight& page);
  bool has_room(LanePeer& peer, const FetchState& fetch) const;
  ReplicaStates states_of(const PageInFlight& page) const;
  Version newest_possible(const PageInFlight& page) const;
  void begin_anew(PageInFlight& page);
  void carry_over_epoch(PageInFlight& page);
  void choose(PageInFlight& page);
  void ask(PageInFlight& page, uint8_t rank);
  void begin_at(LanePeer& peer, PageInFlight& page);
  void leave(PageInFlight& page);
  void requeue(PageInFlight& page);
  bool waits_for_nodes(const PageKey& key, Replicas said = 0) const;
  void park(PageInFlight& page);
  static bool is_put_off(const FetchState& fetch, size_t number);
  void put_off(PageInFlight& page);
  void take_up(FetchState& fetch, size_t number);
  void begin_put_off();
  void stop_waiting(PageInFlight& page);
  void begin_again();
  void attempt_failed(PageInFlight& page);
  void on_replica_verdict(PageInFlight& page, Reason reason);
  bool comes_too_late(PageInFlight& page, uint8_t rank);
  void hedge(PageInFlight& first);
  void end_hedge(PageInFlight& hedge);
  void orphan(PageInFlight& hedge);
  void drop_hedge(PageInFlight& first);
  void retire(PageInFlight& loser);
  void hold(PageInFlight& page);
  bool lands(const PageInFlight& page) const;

  // A completion later than `read_window`, or after the view's lease, is discarded (rules 3 and
  // 12).
  bool usable(const PageInFlight& page) const {
    return !page.is.broken && !page.is.former && in_time(page);
  }
  bool in_time(const PageInFlight& page) const {
    return now_ns_ < usable_until_ns(page) && may_use(*page.peer);
  }
  bool is_late(const PageInFlight& page) const {
    return now_ns_ >= page.fetch->deadline_ns && enforced(Guard::kVerdictByDeadline);
  }
  uint64_t usable_until_ns(const PageInFlight& page) const {
    return usable_until_ns(*page.peer, page.posted_ns);
  }
  static uint64_t usable_until_ns(const LanePeer& peer, uint64_t posted_ns) {
    return enforced(Guard::kLeasePerRead) ? posted_ns + peer.path.view().reuse_ns : kNever;
  }
  // Whether a read may begin there now.
  bool may_begin(const LanePeer& peer) const {
    return peer.path.is_open() && may_read() && peer.is_of_epoch() &&
           peer.path.view().valid(now_ns_);
  }
  // Whether a read may begin, and whether what one brings may be used, under the epoch's view.
  bool may_read() const {
    return !enforced(Guard::kViewCheckedAfterBegin) || view_->valid(now_ns_);
  }
  bool may_use(const LanePeer& peer) const {
    return !enforced(Guard::kViewCheckedAtCompletion) ||
           (peer.path.view().valid(now_ns_) && view_->valid(now_ns_));
  }
  static uint64_t time_left(const FetchState& fetch, uint64_t now_ns) {
    return fetch.deadline_ns - std::min(fetch.deadline_ns, now_ns);
  }
  // Where there are several nodes, one that is silent leaves room for the others.
  size_t most_at_one() const { return std::clamp<size_t>(window_ / 2, 1, kWindow / 2); }
  // Whether it has much less time than others have: it waits for no room that these may use.
  bool is_urgent(const FetchState& fetch) const {
    return time_left(fetch, now_ns_) < time_left(*active_.back(), now_ns_) / 2;
  }
  // Of the window's places.
  size_t most_of(const FetchState& fetch) const {
    return single_ || is_urgent(fetch) ? window_ : window_ - window_ / 4;
  }
  uint64_t window_bytes() const;
  Parked parked() const {
    if (single_ || (!any_silent_ && parked_.pages == 0)) return {};
    return count_parked();
  }
  Parked count_parked() const;
  // Of the window.
  size_t places_taken() const { return kPlaces - free_count_ - parked().pages; }
  size_t in_flight() const;

  // lane_house.cc: what is done when it is due, rather than at each turn.
  void look_after(uint64_t at_ns) { due_ns_ = std::min(due_ns_, at_ns); }
  void keep_house();
  bool is_behind() const;
  uint64_t next_due_ns() const;
  Result<void> open_path();
  void enter_epoch();
  void advance_path(LanePeer& peer);
  void drop_former();
  void end_path(LanePeer& peer);
  void give_up(LanePeer& peer);
  void drain(LanePeer& peer);
  bool any_reachable() const;
  bool any_reachable(const PageKey& key) const;
  bool waits_for_links(const PageInFlight& page) const;
  void expire(FetchState& fetch);
  void watch();
  void heard(LanePeer& peer);
  bool crowded(const LanePeer& peer) const;
  uint64_t silent_ns(const LanePeer& peer) const;
  void find_silent();
  uint64_t give_up_ns(PageInFlight& page);

  // lane_lookups.cc: keys looked up in an index, mapped here or read.
  LanePeer& primary_of(const PageKey& key) const {
    return *by_member_[single_ ? 0 : view_->placement.replicas(key).primary()];
  }
  std::span<const std::byte> mapped_index(const LanePeer& peer) const;
  void answer_questions();
  void take_answers();
  bool ask_next(QuestionState& question);
  bool waits_for(LanePeer& peer, const QuestionState& question);
  void read_buckets(QuestionState& question, LanePeer& peer);
  void index_read_ended(LanePeer& peer, const OperationTag& tag, Outcome outcome);
  void watch_index_reads();

  // lane_waits.cc
  struct Awaited;
  uint64_t next_event_ns() const;
  void wait(uint64_t until_ns);
  bool wait_for_answers(uint64_t until_ns);
  static bool sleep(std::span<LaneEngine* const> lanes, uint64_t until_ns);
  bool add_to(Awaited& awaited) const;
  uint64_t arm();
  bool has_to_post() const;
  bool is_at_work() const {
    return !active_.empty() || in_flight() > 0 || checks_.any() || index_reads_.any();
  }
  bool is_interrupted() const { return interrupts_.load() != interrupts_seen_; }
  bool expects_soon(uint64_t spin_ns);
  void look_at_each(uint64_t until_ns);
  template <typename Ready>
  void drive(uint64_t until_ns, const Ready& ready);

  std::shared_ptr<FleetLink> fleet_;
  const std::shared_ptr<ChangeSignal> signal_ = fleet_->runtime().signal_changes();
  bool allows_interrupts_ = false;
  std::atomic<uint32_t> interrupts_{0};
  uint32_t interrupts_seen_ = 0;  // when the last wait returned
  const Runtime& runtime_;
  const Clock& clock_;
  const bool alone_;  // the node serves alone
  const bool verify_;
  const bool lands_with_crc_;
  const bool wants_crc_;  // the backend counts what this lane verifies
  Mapping memory_;
  Region region_;               // after memory_: its registration ends first
  const uint64_t landing_key_;  // of its slices
  PagePool places_;       // that hedges land in (protocol rule 4), registered before any fetch
  PayloadChecks checks_;  // after the memory that they read
  uint64_t checks_moved_ns_ = 0;  // when one last began or ended
  PageCopier* copier_ = nullptr;
  std::array<PageInFlight, kPlaces> pages_;
  std::vector<PageDetails> details_;          // of each
  std::array<uint32_t, kPlaces> landed_crc_;  // of each whose payload was here before its header
  std::array<uint16_t, kPlaces> free_pages_;  // the first of them
  uint32_t free_count_ = 0;
  std::array<uint16_t, kPlaces> ended_;  // those of which no operation is outstanding any more
  uint32_t ended_count_ = 0;
  uint64_t ended_bytes_ = 0;
  std::array<uint16_t, kPlaces> checked_;  // those aside, whose check has ended
  uint32_t checked_count_ = 0;
  std::vector<uint16_t> going_on_;  // pages with that flag, and such as had it
  uint32_t steps_ = 0;              // the number of the last one
  std::vector<std::unique_ptr<FetchState>> fetches_;
  std::vector<FetchState*> unused_fetches_;
  FetchState orphaned_;  // owns pages in flight that a fetch has left behind, and which write to
                         // the lane alone
  std::vector<FetchState*> active_;  // those with pages pending or held, by deadline
  bool any_ended_ = false;           // of those
  size_t unbegun_ = 0;               // requests of theirs
  ReadyPages ready_;
  uint64_t bytes_under_way_ = 0;   // of all pages in flight
  uint32_t waiting_ = 0;           // pages with that flag
  Parked parked_;                  // those of them with that flag
  bool any_silent_ = false;        // of the nodes that have something in flight
  size_t put_off_ = 0;             // pages of all fetches that have no place
  bool looks_at_put_off_ = false;  // what they wait for may be there
  bool takes_up_ = false;          // a pass over them is under way
  uint64_t put_off_ns_ = 0;        // when the next one may begin
  uint64_t page_bytes_ = 0;        // that the next two were made for
  size_t window_ = 1;              // pages in flight at one time, few enough for `read_window`
  size_t page_batch_ = 4;          // completions of pages that are polled at one time
  size_t poll_batch_ = 4;          // ... that are now
  uint64_t now_ns_ = 0;            // as of the last look at the clock
  uint64_t turned_ns_ = 0;         // as of the last turn
  uint64_t due_ns_ = 0;            // when the house must be kept next
  uint64_t changes_ = 0;           // of the runtime, that keep_house() has seen
  bool has_waited_ = false;        // since the last turn
  uint64_t present_ns_ = 0;        // since then the lane was never undriven for long
  uint64_t watch_ns_ = kNever;     // when a page has to be looked at for what it has not done
  uint64_t hedge_credit_ = 0;      // so that hedges stay few
  std::array<Completion, kPollBatch> polled_;
  Stillness still_;
  LaneCounters counters_;
  IndexReads index_reads_;
  const uint32_t most_asked_;  // operations of questions, on one channel
  uint64_t fleet_number_ = 0;
  std::shared_ptr<EpochLease> view_;
  bool single_ = true;  // the epoch has one member
  std::vector<LanePeer*> by_member_;
  bool any_former_ = false;      // some of the peers are not of the epoch
  std::vector<LanePeer*> busy_;  // that have something in flight
  // Last: their operations end first, while everything that they may write to still stands.
  std::vector<std::unique_ptr<LanePeer>> peers_;
};

}  // namespace farpage
