#include "lab/scale/epoch_news.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/check.h"
#include "lab/scale/busy_register.h"
#include "lab/scale/placement_sample.h"
#include "lab/scale/quiet_dialer.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "sim/sim_register.h"
#include "sim/sim_wire.h"
#include "tier/link/fleet_link.h"

namespace farpage {
namespace {

constexpr uint64_t kLookNs = kMillisecond;
constexpr uint64_t kConfirmSpanNs = 100 * kMillisecond;  // over which confirmations come

// All clients are of one host: what they do to each other is what the register does.
class Crowd {
 public:
  explicit Crowd(const EpochNewsOptions& options)
      : options_(options),
        world_(options.seed),
        wire_{world_, 10 * kMicrosecond, 200 * kMicrosecond},
        capacity_(world_, options.read_busy_ns, options.view_ns / 2),
        fabric_(world_, {}),
        register_(wire_, 1, scale_epoch(options.members, 1, 4096, options.seed),
                  {.timeout_ns = 2 * options.view_ns, .detect_ns = 0}),
        epochs_(register_.access(0, fabric_.runtime()), capacity_, options.watches) {
    fleet_.list = register_.current().epoch;
    fleet_.epochs = &epochs_;
    fleet_.view_ns = options.view_ns;
    fleet_.dialer = [this](NodeId) -> ControlDialer& {
      dialers_.push_back(std::make_unique<QuietDialer>(fabric_.runtime()));
      return *dialers_.back();
    };
    for (uint64_t i = 0; i < options.clients; ++i) start_one();
    world_.run_until(world_.now_ns() + 4 * options.view_ns);
  }
  ~Crowd() {
    for (const auto& link : links_) link->stop();
  }

  EpochNews begin_epoch() {
    EpochNews news = {.clients = links_.size()};
    const uint64_t reads_at_first = capacity_.reads();
    world_.run_until(world_.now_ns() + options_.view_ns);
    news.reads_before = capacity_.reads() - reads_at_first;
    const auto served = std::ranges::count_if(links_, [this](const auto& link) {
      const auto view = link->view();
      return view != nullptr && view->valid(world_.now_ns());
    });
    news.served = static_cast<double>(served) / static_cast<double>(links_.size());

    Epoch next = register_.current().epoch;
    const uint64_t current = next.number++;
    next.members.pop_back();
    const uint64_t reads_then = capacity_.reads();
    uint64_t begun_ns = 0;
    epochs_.replace(current, next, [this, &begun_ns](const Result<void>& replaced) {
      FARPAGE_CHECK(replaced);
      begun_ns = register_.begun_ns(register_.history().size() - 1);
      capacity_.tell();
      confirm_all();
    });
    FARPAGE_CHECK(world_.wait_until(world_.now_ns() + kSecond, [&] { return begun_ns != 0; }));
    std::vector<uint64_t> took;
    std::vector<std::shared_ptr<FleetLink>> waiting = links_;
    const uint64_t end = begun_ns + 8 * options_.view_ns;
    while (world_.now_ns() < begun_ns + options_.view_ns ||
           (!waiting.empty() && world_.now_ns() < end)) {
      world_.run_until(world_.now_ns() + kLookNs);
      std::erase_if(waiting, [&](const auto& link) {
        const auto view = link->view();
        const bool knows = view != nullptr && view->epoch.number > current;
        if (knows) took.push_back(world_.now_ns() - begun_ns);
        return knows;
      });
      if (news.reads == 0 && world_.now_ns() >= begun_ns + options_.view_ns) {
        news.reads = capacity_.reads() - reads_then;
      }
    }
    news.last_ns = waiting.empty() ? took.back() : kNever;
    news.median_ns = took.size() <= links_.size() / 2 ? kNever : took[links_.size() / 2];
    return news;
  }

 private:
  // connect() waits for a first view of a node, which none of these has, and gives up after a
  // millisecond; what it has begun goes on. So clients read at times of their own.
  void start_one() {
    ClientOptions client;
    client.staging_bytes = 0;
    client.location_pages = 1;
    client.connect_ms = 1;
    links_.push_back(std::make_shared<FleetLink>(client, fabric_.runtime(), fabric_, fleet_));
    FARPAGE_CHECK(!links_.back()->connect());
    world_.run_until(world_.now_ns() + world_.random_below(kMillisecond));
  }

  void confirm_all() {
    const Epoch& epoch = register_.current().epoch;
    for (uint64_t i = 0; i < std::min<uint64_t>(options_.confirmations, epoch.members.size());
         ++i) {
      world_.after(world_.random_below(kConfirmSpanNs), [this, i] {
        const Epoch& now = register_.current().epoch;
        epochs_.confirm(now.members[i].node, now.number,
                        [this](const Result<void>&) { capacity_.tell(); });
      });
    }
  }

  const EpochNewsOptions options_;
  sim::World world_;
  SimWire wire_;
  RegisterCapacity capacity_;
  sim::SimFabric fabric_;
  SimRegister register_;
  BusyRegister epochs_;
  Fleet fleet_;
  std::vector<std::unique_ptr<QuietDialer>> dialers_;
  std::vector<std::shared_ptr<FleetLink>> links_;
};

}  // namespace

EpochNews measure_epoch_news(const EpochNewsOptions& options) {
  return Crowd(options).begin_epoch();
}

}  // namespace farpage
