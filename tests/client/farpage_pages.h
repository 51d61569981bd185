#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/farpage.h"

namespace farpage {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kTimeoutUs = 20'000'000;  // no test waits for it

inline OpenOptions embedded() {
  OpenOptions options;
  options.embedded = true;
  options.embedded_node = {.name = "", .pool_bytes = 8 * kMiB, .page_bytes = kPageBytes};
  return options;
}

inline std::unique_ptr<Farpage> open(const OpenOptions& options = embedded(),
                                     const Connection::WrapFabric& wrap = {}) {
  auto opened = Farpage::open_over(options, wrap);
  if (!opened) throw std::runtime_error(opened.error().message);
  return std::move(*opened);
}

// Memory of so many pages, registered: page i is filled with `first` + i.
class Pages {
 public:
  Pages(Farpage& tier, size_t count, uint8_t first = 0) : memory_(count * kPageBytes) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_[i] = static_cast<std::byte>(first + i / kPageBytes);
    }
    region_ = tier.register_memory(memory_).value();
  }

  Slice slice(size_t page) const { return region_.slice(page * kPageBytes, kPageBytes); }
  std::span<const std::byte> page(size_t page) const {
    return std::span(memory_).subspan(page * kPageBytes, kPageBytes);
  }
  std::span<std::byte> bytes() { return memory_; }
  size_t count() const { return memory_.size() / kPageBytes; }

 private:
  std::vector<std::byte> memory_;
  Region region_;
};

inline PageKey key(size_t number) {
  return make_page_key("farpage_test", std::to_string(number));
}

inline std::vector<PutRequest> puts(const Pages& pages, size_t first_key = 0) {
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < pages.count(); ++i) {
    requests.push_back({key(first_key + i), pages.slice(i)});
  }
  return requests;
}

inline std::vector<PageRequest> fetches(const Pages& pages, size_t first_key = 0) {
  std::vector<PageRequest> requests;
  for (size_t i = 0; i < pages.count(); ++i) {
    requests.push_back({key(first_key + i), 0, pages.slice(i)});
  }
  return requests;
}

inline void put_all(Farpage& tier, const Pages& pages, size_t first_key = 0) {
  const auto ticket = tier.put(puts(pages, first_key), kTimeoutUs).value();
  ticket.wait();
  for (const PutResult& result : ticket.results())
    ASSERT_EQ(result.code, Code::kOk) << ticket.why();
}

// Of a folder.
inline size_t entries(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace farpage
