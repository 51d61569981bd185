#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/memory/mapping.h"
#include "replay/page_content.h"
#include "tier/client.h"

namespace farpage {

inline PageKey test_key(uint64_t number) {
  return make_page_key("test", std::to_string(number));
}

// An engine's use of a client, for tests: pages whose content is a function of key and put number,
// one frame of registered memory for each.
class Engine {
 public:
  Engine(Client& client, uint64_t page_bytes, size_t frames)
      : client_(client),
        page_bytes_(page_bytes),
        memory_(Mapping::anonymous(page_bytes * frames).value()),
        region_(client.register_memory({memory_.data(), memory_.bytes()}).value()),
        lane_(client.open_lane().value()) {}

  Lane& lane() { return lane_; }
  Client& client() { return client_; }
  uint64_t deadline(uint64_t in_ns = 2 * kSecond) const { return client_.clock().now_ns() + in_ns; }
  std::span<std::byte> frame(size_t index) {
    return {memory_.data() + index * page_bytes_, page_bytes_};
  }
  Slice slice(size_t index) const { return region_.slice(index * page_bytes_, page_bytes_); }

  PutResult put(const PageKey& key, uint64_t put_number, uint64_t in_ns = 2 * kSecond) {
    fill_page(frame(0), key, put_number);
    const PutRequest request = {key, slice(0)};
    Put put = client_.put({&request, 1}, deadline(in_ns));
    const PutResult result = put.wait()[0];
    FARPAGE_CHECK(result.code == Code::kOk || !put.why().empty());
    return result;
  }

  PageVerdict fetch(const PageKey& key, Version min_version = 0, uint64_t in_ns = 2 * kSecond) {
    std::ranges::fill(frame(0), std::byte{0xEE});
    const PageRequest request = {key, min_version, slice(0)};
    PageVerdict verdict;
    lane_.fetch({&request, 1}, {&verdict, 1}, deadline(in_ns)).wait();
    return verdict;
  }

  // The put that the frame holds a page of, or nullopt if any byte of it is wrong.
  std::optional<uint64_t> put_number_of(const PageKey& key, size_t index = 0) {
    uint64_t number = 0;
    std::memcpy(&number, frame(index).data(), sizeof number);
    std::vector<std::byte> whole(page_bytes_);
    fill_page(whole, key, number);
    // Tests are not optimized, and compare many MiB so.
    if (std::memcmp(frame(index).data(), whole.data(), page_bytes_) != 0) return std::nullopt;
    return number;
  }

 private:
  Client& client_;
  uint64_t page_bytes_;
  Mapping memory_;
  Region region_;
  Lane lane_;
};

}  // namespace farpage
