#pragma once

#include <farpage/farpage.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace farpage {

// What tests of the C API share. Nothing here sees more of the library than its C header.

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kTimeoutUs = 20'000'000;  // no test waits for it
inline constexpr const char* kEmbedded =
    "[client]\nembedded = true\n[embedded]\npool_bytes = \"8MiB\"\npage_bytes = 4096\n";

inline void expect_ok(farpage_code_t code) {
  EXPECT_EQ(code, FARPAGE_OK) << farpage_last_error();
}

struct EndsHandle {
  void operator()(farpage_t* client) const { expect_ok(farpage_close(client)); }
  void operator()(farpage_ticket_t* ticket) const { farpage_ticket_free(ticket); }
  void operator()(farpage_completions_t* completions) const {
    farpage_completions_free(completions);
  }
};
using CClient = std::unique_ptr<farpage_t, EndsHandle>;
using CTicket = std::unique_ptr<farpage_ticket_t, EndsHandle>;
using CCompletions = std::unique_ptr<farpage_completions_t, EndsHandle>;

inline CClient open_client(const std::string& toml = kEmbedded) {
  farpage_t* client = nullptr;
  if (farpage_open(toml.c_str(), &client) != FARPAGE_OK) {
    throw std::runtime_error(farpage_last_error());
  }
  return CClient(client);
}

// One lane, so that what a callback holds up there holds up all that comes after it.
inline CClient open_one_lane() {
  return open_client(
      "[client]\nlanes = 1\nembedded = true\n"
      "[embedded]\npool_bytes = \"8MiB\"\npage_bytes = 4096\n");
}

inline CCompletions make_completions() {
  farpage_completions_t* made = nullptr;
  expect_ok(farpage_completions_new(&made));
  return CCompletions(made);
}

inline farpage_key_t key_of(std::string_view name) {
  farpage_key_t key;
  expect_ok(farpage_key("c_test", 6, name.data(), name.size(), &key));
  return key;
}

// Memory of so many pages, page i of which is filled with `first` + i.
inline std::vector<uint8_t> filled(size_t pages, uint8_t first) {
  std::vector<uint8_t> memory(pages * kPageBytes);
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<uint8_t>(first + i / kPageBytes);
  }
  return memory;
}

inline farpage_region_t* register_all(farpage_t* client, std::span<uint8_t> memory) {
  farpage_region_t* region = nullptr;
  expect_ok(farpage_register(client, memory.data(), memory.size(), &region));
  return region;
}

// Page i has the key of the number i.
inline std::vector<farpage_page_t> pages_in(std::span<uint8_t> memory) {
  std::vector<farpage_page_t> pages(memory.size() / kPageBytes, FARPAGE_PAGE_INIT);
  for (size_t i = 0; i < pages.size(); ++i) {
    pages[i].key = key_of(std::to_string(i));
    pages[i].data = memory.data() + i * kPageBytes;
    pages[i].bytes = kPageBytes;
  }
  return pages;
}

inline std::vector<farpage_key_t> keys_up_to(size_t count) {
  std::vector<farpage_key_t> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(key_of(std::to_string(i)));
  return keys;
}

inline CTicket fetch(farpage_t* client, const std::vector<farpage_page_t>& pages,
                     const farpage_notification_t* notification = nullptr,
                     uint64_t timeout_us = kTimeoutUs) {
  farpage_ticket_t* ticket = nullptr;
  expect_ok(farpage_fetch(client, pages.data(), pages.size(), timeout_us, notification, &ticket));
  return CTicket(ticket);
}

inline CTicket put(farpage_t* client, const std::vector<farpage_page_t>& pages,
                   const farpage_notification_t* notification = nullptr,
                   uint64_t timeout_us = kTimeoutUs) {
  farpage_ticket_t* ticket = nullptr;
  expect_ok(farpage_put(client, pages.data(), pages.size(), timeout_us, notification, &ticket));
  return CTicket(ticket);
}

inline void wait(const CTicket& ticket) {
  expect_ok(farpage_ticket_wait(ticket.get(), kTimeoutUs));
}

inline std::span<const farpage_page_verdict_t> verdicts(const CTicket& ticket) {
  wait(ticket);
  const farpage_page_verdict_t* verdicts = nullptr;
  size_t count = 0;
  expect_ok(farpage_ticket_verdicts(ticket.get(), &verdicts, &count));
  return {verdicts, count};
}

inline std::span<const farpage_put_result_t> results(const CTicket& ticket) {
  wait(ticket);
  const farpage_put_result_t* results = nullptr;
  size_t count = 0;
  expect_ok(farpage_ticket_results(ticket.get(), &results, &count));
  return {results, count};
}

inline void put_all(farpage_t* client, const std::vector<farpage_page_t>& pages) {
  const CTicket ticket = put(client, pages);
  for (const farpage_put_result_t& result : results(ticket)) {
    EXPECT_EQ(result.code, FARPAGE_OK) << farpage_ticket_why(ticket.get());
  }
}

}  // namespace farpage
