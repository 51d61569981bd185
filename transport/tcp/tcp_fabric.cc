#include "transport/tcp/tcp_fabric.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "net/runtime/asio_runtime.h"
#include "net/runtime/thrown.h"
#include "transport/lasting_memory.h"
#include "transport/local_registrations.h"
#include "transport/tcp/data_connection.h"
#include "transport/tcp/exports.h"
#include "transport/tcp/initiator.h"
#include "transport/tcp/target.h"
#include "transport/traffic.h"

namespace farpage::tcp {
namespace {

// One I/O thread and the connections that it serves.
class IoThread {
 public:
  explicit IoThread(std::shared_ptr<Exports> exports)
      : exports_(std::move(exports)), user_(exports_->add_user()) {
    loop_.run([] {
      sigset_t broken;  // PlainStream::write_file()
      sigemptyset(&broken);
      sigaddset(&broken, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &broken, nullptr);
    });
  }
  ~IoThread() {
    loop_.run([this] {
      stopped_ = true;
      connections_.clear();
    });
  }

  void serve(std::unique_ptr<Stream> stream, const std::shared_ptr<TargetState>& channel) {
    // std::function wants what it holds to be copyable.
    auto shared = std::make_shared<std::unique_ptr<Stream>>(std::move(stream));
    loop_.after(0, [this, shared, channel] {
      if (stopped_) return;
      auto connection = std::make_shared<DataConnection>(loop_, std::move(*shared), channel,
                                                         exports_, user_, traffic_);
      const std::weak_ptr<DataConnection> weak = connection;
      const bool attached = channel->attach([this, weak] {
        loop_.after(0, [weak] {
          if (auto woken = weak.lock()) woken->wake();
        });
      });
      if (!attached) return;
      connections_.emplace(connection.get(), connection);
      connection->start([this, raw = connection.get()] { connections_.erase(raw); });
    });
  }

  const TrafficCounters& traffic() const { return traffic_; }

 private:
  const std::shared_ptr<Exports> exports_;
  Exports::User& user_;
  TrafficCounters traffic_;
  AsioRuntime loop_;
  bool stopped_ = false;  // this and what follows: the loop's alone
  std::unordered_map<DataConnection*, std::shared_ptr<DataConnection>> connections_;
};

class TcpFabricOf final : public TcpFabric, public TrafficSource, public LastingMemory {
 public:
  explicit TcpFabricOf(const TcpOptions& options) : credentials_(options.credentials) {
    capabilities_.path = credentials_.tls != nullptr ? "TCP with TLS" : "TCP";
    for (uint64_t i = 0; i < options.io_threads; ++i) {
      threads_.push_back(std::make_unique<IoThread>(exports_));
    }
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<Region> allocate_readable(uint64_t bytes) override {
    UniqueFd file;
    auto memory = take_lasting_memory(bytes, file);
    if (!memory) return tl::unexpected(memory.error());
    return export_readable(exports_, std::move(*memory), std::move(file), bytes);
  }

  Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) override {
    auto memory = take_lasting_memory(bytes, file);
    if (!memory) return tl::unexpected(memory.error());
    UniqueFd own(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));  // -1: its pages are copied
    return export_readable(exports_, std::move(*memory), std::move(own), bytes);
  }

  Result<Region> register_local(const MemoryRange& range) override {
    return register_host_memory(local_, range);
  }

  Result<RegionExport> export_region(const Region& region) override {
    const auto* backing = dynamic_cast<const ExportedBacking*>(region.backing());
    if (backing == nullptr) {
      return fail(Code::kInvalid, "only memory that tcp has allocated can be shared");
    }
    RegionExport exported;
    exported.bytes = region.bytes();
    exported.access = region.access();
    exported.opaque.assign(reinterpret_cast<const char*>(&backing->key), sizeof backing->key);
    return exported;
  }

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    const ChannelId id = make_channel_id();
    auto state = std::make_shared<TargetState>(++last_channel_, purpose);
    OfferedTarget result;
    result.target = std::make_unique<TcpTarget>(id, std::move(state), exports_, offers_);
    result.offer.purpose = purpose;
    result.offer.opaque.assign(reinterpret_cast<const char*>(id.data()), id.size());
    return result;
  }

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    Introduction introduction = {ConnectionKind::kData, {}};
    if (offer.opaque.size() != introduction.channel.size()) {
      return fail(Code::kProtocol, "the peer's channel offer is refused: it is not one of tcp");
    }
    std::memcpy(introduction.channel.data(), offer.opaque.data(), offer.opaque.size());
    auto address = parse_address(offer.peer.address);
    if (!address) return tl::unexpected(address.error());
    auto stream = dial(*address, credentials_, introduction, deadline_ns, offer.peer.name);
    if (!stream) return tl::unexpected(stream.error());
    Reply reply;
    auto read = read_all(**stream, std::as_writable_bytes(std::span(&reply, 1)), deadline_ns);
    if (!read) return tl::unexpected(read.error());
    if (reply.code != 0 || reply.sequence != 0) {
      return fail(Code::kExists, "the node does not know the channel, or it is taken up already");
    }
    return TcpInitiator::make(std::move(*stream), local_);
  }

  std::vector<PathTraffic> traffic() const override {
    const auto load = [](const std::atomic<uint64_t>& counter) {
      return counter.load(std::memory_order_relaxed);
    };
    PathTraffic sum = {.path = "tcp", .refused = load(refused_)};
    for (const auto& thread : threads_) {
      const TrafficCounters& one = thread->traffic();
      sum.connections += load(one.connections);
      sum.reads += load(one.reads);
      sum.read_bytes += load(one.read_bytes);
      sum.writes += load(one.writes);
      sum.write_bytes += load(one.write_bytes);
      sum.refused += load(one.refused);
    }
    return {sum};
  }

  void accept(std::unique_ptr<Stream> stream, const Introduction& introduction) override {
    const auto state = offers_->take(introduction.channel);
    if (state == nullptr) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      Reply refusal = {0, static_cast<uint32_t>(Code::kNotFound), 0};
      const iovec part = {&refusal, sizeof refusal};
      stream->write(std::span(&part, 1));  // as far as the socket takes it: the end follows
      return;
    }
    threads_[next_thread_++ % threads_.size()]->serve(std::move(stream), state);
  }

 private:
  const ClientCredentials credentials_;
  Capabilities capabilities_ = {
      .backend = "tcp",
      .path = "TCP",
      .one_sided = false,
      .protects_regions = true,
      .checksums_landing = false,
      .max_in_flight = kMaxInFlight,
  };
  const std::shared_ptr<LocalRegistrations> local_ = std::make_shared<LocalRegistrations>();
  const std::shared_ptr<Exports> exports_ = std::make_shared<Exports>();
  std::atomic<uint64_t> refused_{0};  // connections
  const std::shared_ptr<Offers> offers_ = std::make_shared<Offers>();
  std::atomic<uint64_t> last_channel_{0};
  std::vector<std::unique_ptr<IoThread>> threads_;  // as they were made
  std::atomic<size_t> next_thread_{0};
};

}  // namespace

Result<std::unique_ptr<TcpFabric>> make_tcp_fabric(const TcpOptions& options) {
  try {
    return std::make_unique<TcpFabricOf>(options);
  } catch (const std::system_error& error) {
    return fail(Code::kExhausted,
                fmt::format("cannot start {} I/O threads (node.io_threads): {}", options.io_threads,
                            fail_thrown(error).value().message));
  }
}

}  // namespace farpage::tcp
