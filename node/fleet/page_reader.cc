#include "node/fleet/page_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "integrity/crc32c.h"
#include "integrity/page_check.h"

namespace farpage {
namespace {

constexpr uint64_t kLookNs = 20 * kMicrosecond;        // at reads that are under way
constexpr uint64_t kPathLookNs = kMillisecond;         // at a path that is not open yet
constexpr uint64_t kMemoryLookNs = 50 * kMillisecond;  // at a system that grants no memory
constexpr uint64_t kReadPatienceNs = 3 * kSecond;      // with a path that opens late, or ends
constexpr uint64_t kPollBytes = kMiB;                  // before others have their turn
constexpr size_t kPollBatch = 16;

}  // namespace

Result<PoolLanding> PoolLanding::create(Fabric& fabric, PageStore& store) {
  auto pool = fabric.register_local({store.pool().data(), store.pool().bytes()});
  if (!pool) return tl::unexpected(pool.error());
  return PoolLanding{&store, std::move(*pool)};
}

PageReader::PageReader(std::shared_ptr<NodeSession> link, Runtime& runtime, Fabric& fabric,
                       PoolLanding& landing)
    : runtime_(runtime), fabric_(fabric), landing_(landing), path_(std::move(link)) {}

PageReader::~PageReader() {
  path_.finish();
}

void PageReader::read(const HeldPage& page, uint32_t slot, Done done) {
  queue_.push_back({page, slot, runtime_.clock().now_ns() + kReadPatienceNs, std::move(done)});
  pump_in(0);
}

void PageReader::end() {
  ended_ = true;
  path_.end();
  for (Read& read : queue_) read.give_up_ns = 0;
  pump_in(0);
}

void PageReader::pump_in(uint64_t delay_ns) {
  if (pumping_) return;
  pumping_ = true;
  runtime_.after(delay_ns, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    pumping_ = false;
    pump();
  });
}

// One turn. A callback that hears that a read has ended does not end this reader within the call.
void PageReader::pump() {
  const uint64_t now = runtime_.clock().now_ns();
  if (!ended_ && advance()) {
    begin_reads(now);
    if (!path_.post().ok()) path_.end();
  }
  while (!queue_.empty() && now >= queue_.front().give_up_ns) {
    const Done done = std::move(queue_.front().done);
    queue_.pop_front();
    done(Code::kUnavailable, {});
  }
  poll();
  if (path_.in_flight() > 0) return pump_in(kLookNs);
  if (!queue_.empty()) pump_in(path_.is_open() && !places_.empty() ? kLookNs : kPathLookNs);
}

// False: the system grants no memory to lock. It may do so a moment later.
bool PageReader::prepare(uint64_t now_ns) {
  if (!places_.empty()) return true;
  if (now_ns < prepare_at_ns_) return false;
  auto headers = std::make_unique<Headers>();
  auto region =
      fabric_.register_local({reinterpret_cast<std::byte*>(headers.get()), sizeof(Headers)});
  if (!region) {
    prepare_at_ns_ = now_ns + kMemoryLookNs;
    warnings_.warn("cannot read pages from another member: " + region.error().message);
    return false;
  }
  headers_ = std::move(headers);
  headers_region_ = std::move(*region);
  places_.resize(kPlaces);
  return true;
}

void PageReader::begin_reads(uint64_t now_ns) {
  if (queue_.empty() || !prepare(now_ns)) return;
  const View& view = path_.view();
  reuse_ns_ = view.reuse_ns;
  const uint8_t operations = view.geometry.is_apart() ? 2 : 1;
  while (!queue_.empty()) {
    const auto free = std::ranges::find(places_, 0, &Place::outstanding);
    if (free == places_.end() || path_.room() < operations) return;
    const HeldPage& page = queue_.front().page;
    const uint64_t longest =
        std::min(view.geometry.page_bytes, landing_.store->geometry().page_bytes);
    if (page.slot >= view.geometry.slots || page.payload_bytes == 0 ||
        page.payload_bytes > longest) {
      const Done done = std::move(queue_.front().done);
      queue_.pop_front();
      done(Code::kInvalid, {});
      continue;
    }
    const auto place = static_cast<size_t>(free - places_.begin());
    (*headers_)[place].live = 0;
    const uint64_t first_tag = last_tag_ + 1;
    write_operations(queue_.front(), place);
    const auto outstanding = static_cast<uint8_t>((1u << operations) - 1);
    *free = {std::move(queue_.front()), now_ns, first_tag, outstanding, false};
    queue_.pop_front();
  }
}

// Header and payload: one read where they lie together at the other node, and two where they do
// not. Where our own payloads lie is another matter.
void PageReader::write_operations(const Read& read, size_t place) {
  const Geometry& theirs = path_.view().geometry;
  const Slice header = headers_region_.slice(place * sizeof(PageHeader), sizeof(PageHeader));
  const Slice payload = landing_.pool.slice(landing_.store->geometry().payload_offset(read.slot),
                                            read.page.payload_bytes);
  Operation& first = write_operation(path_.headers(), theirs.header_offset(read.page.slot));
  first.local[0] = header;
  first.local_count = theirs.is_apart() ? 1 : 2;
  if (!theirs.is_apart()) {
    first.local[1] = payload;
    return;
  }
  Operation& second = write_operation(path_.pool(), theirs.payload_offset(read.page.slot));
  second.local[0] = payload;
  second.local_count = 1;
}

Operation& PageReader::write_operation(const RemoteRegion& remote, uint64_t offset) {
  Operation& operation = path_.next();
  operation = {};
  operation.tag = ++last_tag_;
  operation.remote = remote;
  operation.remote_offset = offset;
  return operation;
}

void PageReader::poll() {
  if (path_.has_ended()) return end_reads();
  std::array<Completion, kPollBatch> completions;
  const uint64_t slot_bytes = landing_.store->geometry().slot_bytes();
  const size_t most = std::clamp<size_t>(kPollBytes / slot_bytes, 1, kPollBatch);
  const size_t count = path_.poll(std::span(completions).first(most));
  const uint64_t now = runtime_.clock().now_ns();
  for (const Completion& completion : std::span(completions).first(count)) {
    operation_ended(completion, now);
  }
  // A page that has not come within `read_window` is of no use any more, and only the end of the
  // channel ends its read.
  if (std::ranges::any_of(places_, [&](const Place& place) {
        return place.outstanding != 0 && now - place.posted_ns >= reuse_ns_;
      })) {
    path_.end();
  }
}

// A page is judged, and its slot given back, once nothing lands there any more.
void PageReader::operation_ended(const Completion& completion, uint64_t now_ns) {
  const auto bit_of = [&](const Place& place) {
    const uint64_t part = completion.tag - place.first_tag;
    return part < 2 ? static_cast<uint8_t>(place.outstanding & (1u << part)) : uint8_t{0};
  };
  const auto place =
      std::ranges::find_if(places_, [&](const Place& at) { return bit_of(at) != 0; });
  if (place == places_.end()) return;  // it has come before
  path_.operation_ended();
  place->outstanding = static_cast<uint8_t>(place->outstanding & ~bit_of(*place));
  place->failed |= completion.outcome != Outcome::kOk;
  if (place->outstanding != 0) return;
  Landed landed;
  const PageHeader& header = (*headers_)[static_cast<size_t>(place - places_.begin())];
  const Code code = place->failed ? Code::kUnavailable : judge(*place, header, now_ns, landed);
  read_ended(std::exchange(*place, {}).read, code, landed);
}

// The path's channels are gone, and nothing of them lands any more.
void PageReader::end_reads() {
  path_.forget_operations();
  for (Place& place : places_) {
    if (place.outstanding == 0) continue;
    read_ended(std::exchange(place, {}).read, Code::kUnavailable, {});
  }
}

void PageReader::read_ended(Read read, Code code, const Landed& landed) {
  const bool not_read = code == Code::kUnavailable || code == Code::kTimeout;
  if (not_read && !ended_ && runtime_.clock().now_ns() < read.give_up_ns) {
    queue_.push_front(std::move(read));
  } else {
    read.done(code, landed);
  }
}

Code PageReader::judge(const Place& place, const PageHeader& found, uint64_t now_ns,
                       Landed& landed) const {
  if (now_ns - place.posted_ns >= reuse_ns_ || !path_.view().valid(now_ns)) return Code::kTimeout;
  const HeldPage& page = place.read.page;
  PageExpectation expected;
  expected.key = page.key;
  expected.version = page.version;
  expected.incarnation = path_.view().incarnation;
  expected.payload_bytes = page.payload_bytes;
  // A dead page is whole but for its live word.
  PageHeader header = found;
  if (page.dead && header.live == 0) {
    header.live = live_token(page.key, page.version, expected.incarnation);
  }
  const PageFinding finding = check_header(header, expected);
  if (finding == PageFinding::kCorrupt) return Code::kAborted;
  if (finding != PageFinding::kGood) return Code::kNotFound;
  landed.crc = crc32c(0, landing_.store->payload(place.read.slot), page.payload_bytes);
  landed.name_space = header.name_space;
  return landed.crc == header.payload_crc ? Code::kOk : Code::kAborted;
}

}  // namespace farpage
