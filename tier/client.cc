#include "tier/client.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "tier/lane_engine.h"
#include "tier/node_link.h"
#include "tier/push_engine.h"

namespace farpage {

std::vector<ConfigField> fields(ClientOptions& options) {
  return {
      {"staging_bytes", &options.staging_bytes},
      {"location_pages", &options.location_pages},
      {"connect_ms", &options.connect_ms},
      {"metrics_listen", &options.metrics_listen},
  };
}

Result<void> ClientOptions::validate() const {
  constexpr uint64_t kMostPages = uint64_t{1} << 34;
  if (staging_bytes > 64 * kGiB) {
    return fail(Code::kInvalid,
                fmt::format("client.staging_bytes is {}: choose at most 64GiB, or 0 "
                            "for a client that puts nothing",
                            staging_bytes));
  }
  if (location_pages > kMostPages) {
    return fail(Code::kInvalid, fmt::format("client.location_pages is {}: choose at most {}",
                                            location_pages, kMostPages));
  }
  if (connect_ms == 0 || connect_ms > 3'600'000) {
    return fail(Code::kInvalid,
                fmt::format("client.connect_ms is {}: choose 1 to 3600000", connect_ms));
  }
  return {};
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options, Runtime& runtime,
                                                Fabric& fabric, ControlDialer& dialer) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  auto link = std::make_shared<NodeLink>(options, runtime, fabric, dialer);
  if (auto connected = link->connect(); !connected) {
    link->stop();
    return tl::unexpected(connected.error());
  }
  return std::unique_ptr<Client>(new Client(std::move(link)));
}

Client::Client(std::shared_ptr<NodeLink> link) : link_(std::move(link)) {}

Client::~Client() {
  link_->stop();
}

Result<Lane> Client::open_lane() {
  auto engine = LaneEngine::create(link_);
  if (!engine) return tl::unexpected(engine.error());
  return Lane(std::move(*engine));
}

Result<PushLane> Client::open_push_lane(const PushOptions& options) {
  auto engine = PushEngine::create(link_, options);
  if (!engine) return tl::unexpected(engine.error());
  return PushLane(std::move(*engine));
}

Result<Region> Client::register_memory(const MemoryRange& range) {
  return link_->fabric().register_local(range);
}

Result<StatusReply> Client::node_status(uint64_t deadline_ns) {
  struct Answer {
    std::mutex mutex;
    std::optional<Result<Reply>> reply;
  };
  auto answer = std::make_shared<Answer>();
  Runtime& runtime = link_->runtime();
  const std::shared_ptr<View> view = link_->view();
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
  if (!answer->reply) return fail(Code::kTimeout, "the node has not told its status in time");
  if (!*answer->reply) return tl::unexpected(answer->reply->error());
  auto* status = std::get_if<StatusReply>(&**answer->reply);
  if (status == nullptr) return fail(Code::kProtocol, "the node did not answer with its status");
  return *status;
}

const Clock& Client::clock() const {
  return link_->runtime().clock();
}
const Capabilities& Client::capabilities() const {
  return link_->fabric().capabilities();
}
std::vector<PathUse> Client::paths() const {
  const auto* source = dynamic_cast<const PathSource*>(&link_->fabric());
  return source != nullptr ? source->paths() : std::vector<PathUse>();
}
uint64_t Client::location_bytes() const {
  return link_->locations().bytes();
}

uint64_t Client::page_bytes() const {
  const auto view = link_->view();
  return view == nullptr ? 0 : view->geometry.page_bytes;
}

bool Client::reachable() const {
  const auto view = link_->view();
  return view != nullptr && view->valid(clock().now_ns());
}

}  // namespace farpage
