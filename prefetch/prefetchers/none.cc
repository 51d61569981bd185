#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class None final : public Prefetcher {
 public:
  void on_access(const Access&) override {}
  size_t candidates(std::span<PageNumber>) override { return 0; }
};

}  // namespace

PrefetcherInfo none() {
  return {.name = "none",
          .what = "all is fetched when it is demanded: what the others are measured against",
          .parameters = {},
          .make = [](const Setting&, Values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<None>();
          }};
}

}  // namespace farpage::prefetch
