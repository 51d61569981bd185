#include "net/dial_async.h"

#include <utility>

#include "net/connect.h"

namespace farpage {
namespace {

// One dial, on the runtime's thread but for what is offloaded. The wait keeps it alive.
class AsyncDial : public std::enable_shared_from_this<AsyncDial> {
 public:
  AsyncDial(AsioRuntime& runtime, const Address& address, const ClientCredentials& credentials,
            const Introduction& introduction, uint64_t deadline_ns, DialedCallback done)
      : runtime_(runtime),
        address_(address),
        credentials_(credentials),
        introduction_(introduction),
        deadline_ns_(deadline_ns),
        done_(std::move(done)) {}

  void start() {
    if (auto endpoints = resolve_number(address_, ResolveFor::kConnect)) {
      return runtime_.after(0, [self = shared_from_this(), endpoints = std::move(*endpoints)] {
        self->resolved(endpoints);
      });
    }
    runtime_.offload(JobClass::kDial, [self = shared_from_this()] {
      auto endpoints = resolve(self->address_, ResolveFor::kConnect, self->deadline_ns_);
      self->runtime_.after(0, [self, endpoints = std::move(endpoints)] {
        if (!endpoints) return self->done_(tl::unexpected(endpoints.error()));
        self->resolved(*endpoints);
      });
    });
  }

 private:
  void resolved(std::vector<Endpoint> endpoints) {
    endpoints_ = std::move(endpoints);
    try_next();
  }

  void try_next() {
    if (next_ == endpoints_.size()) return done_(tl::unexpected(no_node_answers(address_, last_)));
    const size_t left = endpoints_.size() - next_;
    auto fd = begin_connect(endpoints_[next_++]);
    if (!fd && fd.error().code == Code::kExhausted) return done_(tl::unexpected(fd.error()));
    if (!fd) return failed(fd.error());
    fd_ = std::move(*fd);
    watch_ = runtime_.watch(fd_.get());
    watch_->when_writable([self = shared_from_this()] { self->answered(); });
    const uint64_t now = runtime_.clock().now_ns();
    const uint64_t until = share_of_deadline(now, deadline_ns_, left);
    runtime_.after(until - std::min(now, until), [weak = weak_from_this(), tried = next_] {
      const auto self = weak.lock();
      if (self != nullptr && self->watch_ != nullptr && self->next_ == tried) {
        self->failed({Code::kTimeout, "no answer in time"});
      }
    });
  }

  void failed(Error error) {
    watch_.reset();
    fd_.reset();
    last_ = std::move(error);
    try_next();
  }

  void answered() {
    if (auto connected = end_connect(fd_.get()); !connected) return failed(connected.error());
    watch_.reset();
    runtime_.offload(JobClass::kDial, [self = shared_from_this()] {
      // Shared, because std::function needs what can be copied.
      auto stream = std::make_shared<Result<std::unique_ptr<Stream>>>(
          greet(std::move(self->fd_), self->address_, self->credentials_, self->introduction_,
                self->deadline_ns_));
      self->runtime_.after(0, [self, stream] { self->done_(std::move(*stream)); });
    });
  }

  AsioRuntime& runtime_;
  const Address address_;
  const ClientCredentials credentials_;
  const Introduction introduction_;
  const uint64_t deadline_ns_;
  const DialedCallback done_;
  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;               // to be tried
  UniqueFd fd_;                   // of the one that is tried
  std::unique_ptr<Watch> watch_;  // of fd_, while it connects
  Error last_ = {Code::kUnavailable, "no address"};
};

}  // namespace

void dial_async(AsioRuntime& runtime, const Address& address, const ClientCredentials& credentials,
                const Introduction& introduction, uint64_t deadline_ns, DialedCallback done) {
  std::make_shared<AsyncDial>(runtime, address, credentials, introduction, deadline_ns,
                              std::move(done))
      ->start();
}

}  // namespace farpage
