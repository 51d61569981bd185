#include <gmock/gmock.h>
#include <sys/mman.h>

#include "tests/client/c/c_client.h"
#include "tests/client/c/held_callback.h"

namespace farpage {
namespace {

using testing::HasSubstr;

TEST(CRegion, OneThatATicketLendsIsBusy) {
  auto memory = filled(2, 1);
  auto other = filled(1, 1);
  const auto client = open_client();
  farpage_region_t* lent = register_all(client.get(), memory);
  farpage_region_t* idle = register_all(client.get(), other);
  HeldCallback held;
  const auto ticket = fetch(client.get(), pages_in(memory), held.notification());
  held.wait_entered();
  EXPECT_EQ(farpage_ticket_done(ticket.get()), 1);
  EXPECT_EQ(farpage_ticket_released(ticket.get()), 0);
  EXPECT_EQ(farpage_unregister(lent), FARPAGE_BUSY);
  EXPECT_THAT(farpage_last_error(), HasSubstr("farpage_ticket_wait_released()"));
  expect_ok(farpage_unregister(idle));
  held.let_go();
  expect_ok(farpage_ticket_wait_released(ticket.get(), kTimeoutUs));
  expect_ok(farpage_unregister(lent));  // though the ticket is not freed
  EXPECT_EQ(verdicts(ticket).size(), 2u);
}

TEST(CRegion, WhatIsUnregisteredIsNoMoreOne) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  farpage_region_t* region = register_all(client.get(), memory);
  expect_ok(farpage_unregister(region));
  farpage_ticket_t* ticket = nullptr;
  const auto pages = pages_in(memory);
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 1, 0, nullptr, &ticket), FARPAGE_INVALID);
  register_all(client.get(), memory);
  EXPECT_EQ(verdicts(fetch(client.get(), pages)).size(), 1u);
}

TEST(CRegion, NoByteIsOfTwo) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), std::span(memory).subspan(kPageBytes, 2 * kPageBytes));
  const auto code_of = [&](size_t first, size_t count) {
    farpage_region_t* region = nullptr;
    return farpage_register(client.get(), memory.data() + first, count, &region);
  };
  EXPECT_EQ(code_of(0, kPageBytes + 1), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(0, 4 * kPageBytes), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(kPageBytes, 1), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(2 * kPageBytes, kPageBytes), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(3 * kPageBytes - 1, 2), FARPAGE_EXISTS);
  EXPECT_THAT(farpage_last_error(), HasSubstr("registered already"));
  EXPECT_EQ(code_of(0, kPageBytes), FARPAGE_OK);
  EXPECT_EQ(code_of(3 * kPageBytes, kPageBytes), FARPAGE_OK);
}

TEST(CRegion, APageLiesInOne) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), std::span(memory).first(2 * kPageBytes));
  register_all(client.get(), std::span(memory).last(2 * kPageBytes));
  auto pages = pages_in(memory);
  put_all(client.get(), pages);  // of both, one after the other
  pages[1].data = memory.data() + 2 * kPageBytes - 1;
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 4, 0, nullptr, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("page 1: "));
}

// Memory of the system's, of so many pages.
class Mapped {
 public:
  explicit Mapped(size_t pages) : bytes_(pages * kPageBytes) {
    data_ = static_cast<uint8_t*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(data_, 7, bytes_);
  }
  ~Mapped() { ::munmap(data_, bytes_); }
  void protect(size_t first, size_t pages, int protection) {
    EXPECT_EQ(::mprotect(data_ + first * kPageBytes, pages * kPageBytes, protection), 0);
  }
  std::span<uint8_t> span() const { return {data_, bytes_}; }

 private:
  size_t bytes_;
  uint8_t* data_ = nullptr;
};

TEST(CRegion, MemoryThatMayNotBeWrittenIsForPuts) {
  for (const size_t read_only : {2u, 1u}) {  // all of it, or its second page
    Mapped source(2);
    source.protect(2 - read_only, read_only, PROT_READ);
    const auto client = open_client();
    farpage_region_t* region = register_all(client.get(), source.span());
    const auto pages = pages_in(source.span());
    put_all(client.get(), pages);
    farpage_ticket_t* ticket = nullptr;
    EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 2, 0, nullptr, &ticket), FARPAGE_INVALID);
    EXPECT_THAT(farpage_last_error(), HasSubstr("page 0: "));
    EXPECT_THAT(farpage_last_error(), HasSubstr("puts alone"));
    auto landed = filled(2, 100);
    register_all(client.get(), landed);
    const auto fetched = fetch(client.get(), pages_in(landed));
    for (const auto& verdict : verdicts(fetched)) {
      EXPECT_EQ(verdict.verdict, FARPAGE_READY);
    }
    EXPECT_EQ(landed, std::vector<uint8_t>(2 * kPageBytes, 7));
    source.protect(0, 2, PROT_READ | PROT_WRITE);
    expect_ok(farpage_unregister(region));
    register_all(client.get(), source.span());
    EXPECT_EQ(verdicts(fetch(client.get(), pages))[1].verdict, FARPAGE_READY);
  }
}

TEST(CRegion, MemoryThatIsNotThereIsNone) {
  Mapped memory(3);
  memory.protect(1, 1, PROT_NONE);
  const auto client = open_client();
  const auto code_of = [&](void* data, uint64_t bytes) {
    farpage_region_t* region = nullptr;
    const farpage_code_t code = farpage_register(client.get(), data, bytes, &region);
    EXPECT_EQ(region == nullptr, code != FARPAGE_OK);
    return code;
  };
  uint8_t* const data = memory.span().data();
  EXPECT_EQ(code_of(reinterpret_cast<void*>(kPageBytes), 1), FARPAGE_INVALID);  // never mapped
  EXPECT_THAT(farpage_last_error(), HasSubstr("not mapped"));
  EXPECT_EQ(code_of(data, 3 * kPageBytes), FARPAGE_INVALID);
  EXPECT_EQ(code_of(data, kPageBytes + 1), FARPAGE_INVALID);
  EXPECT_EQ(code_of(data + kPageBytes, 1), FARPAGE_INVALID);
  EXPECT_EQ(code_of(data, kPageBytes), FARPAGE_OK);
  EXPECT_EQ(code_of(data + 2 * kPageBytes, kPageBytes), FARPAGE_OK);
}

TEST(CRegion, NoTwoPagesOfAFetchShareAByte) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  auto pages = pages_in(memory);
  pages[1].data = memory.data() + 3 * kPageBytes - 1;
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 4, 0, nullptr, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("pages 1 and 2 "));
  EXPECT_EQ(ticket, nullptr);
  put_all(client.get(), pages);  // which only reads
}

TEST(CRegion, IsOfOneClient) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  const auto other = open_client();
  register_all(client.get(), memory);
  const auto pages = pages_in(memory);
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_fetch(other.get(), pages.data(), 1, 0, nullptr, &ticket), FARPAGE_INVALID);
}

}  // namespace
}  // namespace farpage
