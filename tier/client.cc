#include "tier/client.h"

#include <mutex>
#include <optional>

#include "tier/fetch/lane_engine.h"
#include "tier/link/fleet_link.h"
#include "tier/push/push_engine.h"

namespace farpage {
namespace {

// A registration of memory that nodes may read in place.
class SourceBacking final : public Region::Backing {
 public:
  SourceBacking(Region region, const std::shared_ptr<FleetLink>& fleet, uint32_t source)
      : region_(std::move(region)), fleet_(fleet), source_(source) {}
  ~SourceBacking() override {
    if (const auto fleet = fleet_.lock()) fleet->remove_source(source_);
  }

 private:
  const Region region_;
  const std::weak_ptr<FleetLink> fleet_;
  const uint32_t source_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options, Runtime& runtime,
                                                Fabric& fabric, ControlDialer& dialer) {
  return connect(options, std::make_shared<FleetLink>(options, runtime, fabric, dialer));
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options, Runtime& runtime,
                                                Fabric& fabric, const Fleet& fleet) {
  return connect(options, std::make_shared<FleetLink>(options, runtime, fabric, fleet));
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options,
                                                std::shared_ptr<FleetLink> fleet) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (auto connected = fleet->connect(); !connected) {
    fleet->stop();
    return tl::unexpected(connected.error());
  }
  return std::unique_ptr<Client>(new Client(std::move(fleet)));
}

Client::Client(std::shared_ptr<FleetLink> fleet) : fleet_(std::move(fleet)) {}

Client::~Client() {
  fleet_->stop();
}

Result<Lane> Client::open_lane() {
  auto engine = LaneEngine::create(fleet_);
  if (!engine) return tl::unexpected(engine.error());
  return Lane(std::move(*engine));
}

Result<PushLane> Client::open_push_lane(const PushOptions& options) {
  if (!fleet_->alone()) {
    return fail(Code::kInvalid, "pages are pushed by a node that serves alone: fetch them");
  }
  auto engine = PushEngine::create(fleet_->links()[0], options);
  if (!engine) return tl::unexpected(engine.error());
  return PushLane(std::move(*engine));
}

Result<Region> Client::register_memory(const MemoryRange& range) {
  auto region = fleet_->fabric().register_local(range);
  if (!region) return region;
  const uint32_t source = fleet_->add_source(range);
  if (source == 0) return region;
  const uint64_t key = region->slice(0, 0).local_key;
  return Region(range, Access::kLocal, key,
                std::make_unique<SourceBacking>(std::move(*region), fleet_, source));
}

Result<PagePool> Client::make_pool(uint64_t page_bytes, uint32_t pages) {
  return PagePool::create(fleet_->fabric(), page_bytes, pages);
}

Result<StatusReply> Client::node_status(uint64_t deadline_ns) {
  struct Answer {
    std::mutex mutex;
    std::optional<Result<Reply>> reply;
  };
  auto answer = std::make_shared<Answer>();
  Runtime& runtime = fleet_->runtime();
  if (fleet_->sleeps() || fleet_->any_coming()) fleet_->reach_one(deadline_ns);
  const std::shared_ptr<View> view = any_view();
  if (view == nullptr) return fail(Code::kUnavailable, "no memory node can be reached now");
  view->link->call(StatusRequest{}, [answer, &runtime](Result<Reply> reply) {
    {
      std::lock_guard lock(answer->mutex);
      answer->reply = std::move(reply);
    }
    runtime.notify();
  });
  runtime.wait_until(deadline_ns, [&] {
    std::lock_guard lock(answer->mutex);
    return answer->reply.has_value();
  });
  std::lock_guard lock(answer->mutex);
  if (!answer->reply) return fail(Code::kTimeout, "the node did not send its status in time");
  if (!*answer->reply) return tl::unexpected(answer->reply->error());
  auto* status = std::get_if<StatusReply>(&**answer->reply);
  if (status == nullptr) return fail(Code::kProtocol, "the node did not answer with its status");
  return *status;
}

// Of the first node that can be reached, or that was.
std::shared_ptr<View> Client::any_view() const {
  std::shared_ptr<View> any;
  for (const auto& link : fleet_->links()) {
    auto view = link->view();
    if (view != nullptr && view->valid(clock().now_ns())) return view;
    if (any == nullptr) any = view;
  }
  return any;
}

const Clock& Client::clock() const {
  return runtime().clock();
}

Runtime& Client::runtime() const {
  return fleet_->runtime();
}
const Capabilities& Client::capabilities() const {
  return fleet_->fabric().capabilities();
}
std::vector<PathUse> Client::paths() const {
  const auto* source = dynamic_cast<const PathSource*>(&fleet_->fabric());
  return source != nullptr ? source->paths() : std::vector<PathUse>();
}
uint64_t Client::location_bytes() const {
  uint64_t bytes = 0;
  for (const auto& link : fleet_->links()) {
    if (link->page_bytes() != 0) bytes += link->locations().bytes();
  }
  return bytes;
}

uint64_t Client::page_bytes() const {
  for (const auto& link : fleet_->links()) {
    if (const uint64_t bytes = link->page_bytes(); bytes != 0) return bytes;
  }
  const auto current = fleet_->view();
  return current == nullptr ? 0 : current->epoch.page_bytes;
}

uint64_t Client::puts_acknowledged() const {
  return fleet_->counters()->puts_acknowledged();
}
uint64_t Client::puts_failed() const {
  return fleet_->counters()->puts_failed();
}
void Client::count_puts_failed(uint64_t pages) {
  fleet_->counters()->count_puts(0, pages);
}
void Client::count_copies_checked(uint64_t pages, uint64_t spoiled) {
  fleet_->counters()->count_copies_checked(pages, spoiled);
}

bool Client::verifies() const {
  return fleet_->options().verify;
}
void Client::count_landed(LandingPlace place, uint64_t pages) {
  fleet_->counters()->count_landed(place, pages);
}

uint64_t Client::epoch() const {
  const auto current = fleet_->view();
  return current == nullptr ? 0 : current->epoch.number;
}

bool Client::reachable() const {
  return fleet_->reachable();
}

}  // namespace farpage
