#include <algorithm>
#include <array>

#include "pagetable/index_layout.h"
#include "tier/fetch/lane_reads.h"

namespace farpage {
namespace {

// A key's two buckets are two lines of a memory that no cache holds whole: so many keys ahead of
// the one that is looked up, their lines are asked for.
constexpr size_t kAhead = 8;

// As a one-sided read would bring it: word by word, while the node may be writing.
Bucket read_bucket(const std::byte* from) {
  Bucket bucket;
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  for (uint32_t i = 0; i < kBucketEntries; ++i) {
    bucket.entries[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
  }
  return bucket;
}

KeyAnswer answer_of(std::span<const Bucket, 2> buckets, const PageKey& key, uint64_t slots) {
  return find_candidates(buckets, key, slots).count > 0 ? KeyAnswer::kShown : KeyAnswer::kAbsent;
}

}  // namespace

// Empty: it is not mapped, or may not be read now.
std::span<const std::byte> LaneEngine::mapped_index(const LanePeer& peer) const {
  if (!may_begin(peer)) return {};
  const auto* direct = dynamic_cast<const DirectMemory*>(peer.path.channel());
  if (direct == nullptr) return {};
  const auto index = direct->view(peer.path.index());
  const uint64_t bytes = peer.path.view().geometry.buckets * sizeof(Bucket);
  return index.size() < bytes ? std::span<const std::byte>() : index.first(bytes);
}

bool LaneEngine::look_up(std::span<const PageKey> keys, std::span<KeyAnswer> answers) {
  turn();
  const LanePeer* peer = nullptr;  // of the key that is in hand, and its index
  std::span<const std::byte> index;
  const auto buckets_of = [&](const PageKey& key) {
    if (const LanePeer* next = &primary_of(key); next != peer) {
      peer = next;
      peer->link->use();
      index = mapped_index(*peer);
    }
    std::array<const std::byte*, 2> buckets = {};
    if (index.empty()) return buckets;
    const auto homes = key_buckets(key, peer->path.view().geometry.buckets);
    for (size_t i = 0; i < homes.size(); ++i) buckets[i] = index.data() + homes[i] * sizeof(Bucket);
    return buckets;
  };
  for (size_t i = 0; i < keys.size() + kAhead; ++i) {
    if (i < keys.size()) {
      for (const std::byte* bucket : buckets_of(keys[i])) __builtin_prefetch(bucket);
    }
    if (i < kAhead) continue;
    const PageKey& key = keys[i - kAhead];
    const auto from = buckets_of(key);
    if (from[0] == nullptr) return false;
    const std::array<Bucket, 2> buckets = {read_bucket(from[0]), read_bucket(from[1])};
    answers[i - kAhead] = answer_of(buckets, key, peer->path.view().geometry.slots);
  }
  // Another replica may have what the primary has not.
  if (!single_ && std::ranges::find(answers, KeyAnswer::kAbsent) != answers.end()) return false;
  // As of any read: whether what it brought may be used is asked afterwards.
  now_ns_ = clock_.now_ns();
  if (fleet_number_ != fleet_->published().number()) return false;
  return std::ranges::all_of(keys, [&](const PageKey& key) { return may_use(primary_of(key)); });
}

QuestionState* LaneEngine::ask(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                               uint64_t deadline_ns) {
  now_ns_ = clock_.now_ns();
  note_presence(0);
  if (fleet_number_ != fleet_->published().number()) enter_epoch();
  uint64_t time_ns = deadline_ns - std::min(deadline_ns, now_ns_);
  if (!single_) time_ns /= 2;
  QuestionState* question = index_reads_.begin(keys, answers, now_ns_ + time_ns, fleet_number_);
  look_after(0);
  turn();
  return question;
}

// A part of the house, whose time comes when one of their operations has ended or is to end: a lane
// that is asked nothing pays nothing for them. The last part of it: what it writes is posted before
// anything else happens.
void LaneEngine::answer_questions() {
  take_answers();
  for (QuestionState* question : index_reads_.questions()) {
    if (question->next == 0) question->fleet_number = fleet_number_;  // nothing has been asked
    const bool is_over = now_ns_ >= question->until_ns || question->fleet_number != fleet_number_;
    if (is_over) index_reads_.give_up(*question);
  }
  index_reads_.drop_done();
  // Until none of them can go on.
  for (size_t blocked = 0; blocked < index_reads_.questions().size();) {
    blocked = ask_next(index_reads_.next_in_turn()) ? 0 : blocked + 1;
  }
  index_reads_.drop_done();
  // A page of a fetch may come behind all of them.
  poll_batch_ = index_reads_.under_way() > kPollBatch ? kPollBatch : page_batch_;
}

// Of those that have ended, as of the last look at the clock.
void LaneEngine::take_answers() {
  for (const uint16_t place : index_reads_.ended()) {
    const IndexRead& read = index_reads_.at(place);
    LanePeer& peer = *read.peer;
    heard(peer);
    peer.asked -= read.operations;
    QuestionState* question = read.question;
    const bool is_usable = question != nullptr && !read.broken &&
                           question->fleet_number == fleet_number_ && may_use(peer) &&
                           now_ns_ < usable_until_ns(peer, read.posted_ns);
    if (!is_usable) continue;
    const KeyAnswer answer = answer_of(landing().asked[place], question->keys[read.key],
                                       peer.path.view().geometry.slots);
    // Another replica may have what the primary has not.
    if (single_ || answer == KeyAnswer::kShown) question->answers[read.key] = answer;
  }
  index_reads_.free_ended();
}

// Asks for its next key, if there is one, and room for it beside all that fetches may post. Waits
// for a node that is being dialled for the first time, and leaves the keys of one that failed or
// was lost as KeyAnswer::kUnknown: a fetch finds out whether that node is back.
bool LaneEngine::ask_next(QuestionState& question) {
  for (; question.next < question.keys.size(); ++question.next) {
    LanePeer& peer = primary_of(question.keys[question.next]);
    if (!may_begin(peer) && waits_for(peer, question)) return false;
    if (!may_begin(peer) || (!single_ && peer.link->breaker().open())) continue;
    if (index_reads_.free_places() == 0 || peer.asked + kMostReads > most_asked_) return false;
    read_buckets(question, peer);
    return true;
  }
  return false;
}

// Whether a path to the peer, the first one, is on its way, or the epoch that says whom to ask. The
// question's other nodes are dialled beside it.
bool LaneEngine::waits_for(LanePeer& peer, const QuestionState& question) {
  const bool has_view = may_read();
  if (!has_view && !fleet_->wakes()) return false;
  if (peer.link->is_unused()) {
    for (const PageKey& key : question.keys.subspan(question.next)) primary_of(key).link->start();
  }
  return !has_view || peer.is_opening(now_ns_);
}

void LaneEngine::read_buckets(QuestionState& question, LanePeer& peer) {
  peer.link->use();
  const PageKey& key = question.keys[question.next];
  const auto homes = key_buckets(key, peer.path.view().geometry.buckets);
  const uint64_t first = std::min(homes[0], homes[1]);
  const uint64_t last = std::max(homes[0], homes[1]);
  const bool is_one = last == first + 1;
  const uint32_t step = ++steps_;
  const uint16_t place =
      index_reads_.take(question, peer, is_one ? uint8_t{1} : uint8_t{2}, now_ns_, step);
  const auto read = [&](uint8_t part, uint64_t bucket, Bucket& to, uint64_t bytes) {
    ++peer.asked;
    Operation& operation = next_read(peer);
    operation.alone = operation.wants_crc = false;
    operation.tag = OperationTag{step, part, static_cast<uint16_t>(kPlaces + place)}.value();
    operation.deadline_ns = question.until_ns;
    operation.remote = peer.path.index();
    operation.remote_offset = bucket * sizeof(Bucket);
    operation.local_count = 1;
    operation.local[0] = landing_slice(&to, bytes);
  };
  auto& buckets = landing().asked[place];
  read(1, first, buckets[0], is_one ? sizeof buckets : sizeof(Bucket));
  if (!is_one) read(2, last, buckets[1], sizeof(Bucket));
  counters_.index_looks.add();
}

void LaneEngine::index_read_ended(LanePeer& peer, const OperationTag& tag, Outcome outcome) {
  const auto place = static_cast<uint16_t>(tag.attempt - kPlaces);
  FARPAGE_CHECK(place < IndexReads::kPlaces);
  if (!index_reads_.operation_ended(place, tag, outcome == Outcome::kOk)) {
    counters_.strays.add();  // it has come before
    return;
  }
  peer.path.operation_ended();
  if (outcome == Outcome::kFailed) peer.link->breaker().failed(clock_.now_ns());
  look_after(0);
}

// Those whose node is silent take no place for longer than what they bring could be used: then the
// path ends, as when it was silent to a fetch.
void LaneEngine::watch_index_reads() {
  for (const IndexRead& read : index_reads_.all()) {
    if (read.outstanding == 0 || !read.peer->path.is_open()) continue;
    LanePeer& peer = *read.peer;
    const uint64_t end_ns = usable_until_ns(peer, read.posted_ns);
    if (now_ns_ < end_ns) {
      watch_ns_ = std::min(watch_ns_, end_ns);
      continue;
    }
    drain(peer);
    if (read.outstanding != 0) give_up(peer);
  }
}

}  // namespace farpage
