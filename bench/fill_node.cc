#include "bench/fill_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/landing_memory.h"
#include "replay/page_content.h"
#include "replay/put_advice.h"

namespace farpage {
namespace {

constexpr uint64_t kPutDeadlineNs = 30 * kSecond;
constexpr uint64_t kPutBytes = 16 * kMiB;  // filled in one go
constexpr uint64_t kPutPages = 1024;

}  // namespace

Result<std::vector<PageKey>> fill_node(Client& client, const FillOptions& options,
                                       const std::function<bool()>& interrupted,
                                       const std::function<void(uint64_t, uint64_t)>& filled) {
  const uint64_t batch = std::clamp<uint64_t>(kPutBytes / options.page_bytes, 1, kPutPages);
  const auto memory = LandingMemory::create(client, batch * options.page_bytes);
  if (!memory) return tl::unexpected(memory.error());

  std::vector<PageKey> keys;
  keys.reserve(options.pages);
  std::vector<PutRequest> requests;
  while (keys.size() < options.pages && !interrupted()) {
    requests.clear();
    for (uint64_t i = 0; i < std::min(batch, options.pages - keys.size()); ++i) {
      const PageKey key = make_page_key(options.name_space, std::to_string(keys.size() + i));
      const Slice source = memory->region.slice(i * options.page_bytes, options.page_bytes);
      fill_page({source.data, source.bytes}, key, 1);
      requests.push_back({key, source});
    }
    Put put = client.put(requests, client.clock().now_ns() + kPutDeadlineNs);
    const std::span<const PutResult> results = put.wait();
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].code != Code::kOk) {
        return fail(
            results[i].code,
            fmt::format("the node did not take page {} of {}: {}{}{}{}", keys.size() + 1,
                        options.pages, code_name(results[i].code), put_advice(results[i].code),
                        put.why().empty() ? "" : "; ", put.why()));
      }
      keys.push_back(requests[i].key);
    }
    filled(keys.size(), options.pages);
  }
  return keys;
}

}  // namespace farpage
