#include <gmock/gmock.h>

#include <array>

#include "tests/client/c/c_client.h"

namespace farpage {
namespace {

using testing::HasSubstr;

// A page as a program has it whose header is older or newer.
struct OldPage {
  size_t struct_size = sizeof(OldPage);
  farpage_key_t key = {};
  void* data = nullptr;
  uint64_t bytes = 0;
};
struct NewPage {
  farpage_page_t known = {sizeof(NewPage), {}, nullptr, 0, 0};
  uint64_t unknown = 0;
};
static_assert(sizeof(OldPage) < sizeof(farpage_page_t) && sizeof(NewPage) > sizeof(farpage_page_t));

class CStructSize : public testing::Test {
 protected:
  CStructSize() { register_all(client_.get(), memory_); }

  farpage_code_t fetch_any(const void* pages, size_t count,
                           const farpage_notification_t* notification = nullptr) {
    farpage_ticket_t* ticket = nullptr;
    const auto code = farpage_fetch(client_.get(), static_cast<const farpage_page_t*>(pages), count,
                                    kTimeoutUs, notification, &ticket);
    last_ = CTicket(ticket);
    return code;
  }

  std::vector<uint8_t> memory_ = filled(3, 1);
  CClient client_ = open_client();
  CTicket last_;
};

TEST_F(CStructSize, OfAnOlderProgram) {
  put_all(client_.get(), pages_in(memory_));
  const auto expected = memory_;
  std::ranges::fill(memory_, 0);
  std::array<OldPage, 3> pages;
  for (size_t i = 0; i < 3; ++i) {
    pages[i].key = key_of(std::to_string(i));
    pages[i].data = memory_.data() + i * kPageBytes;
    pages[i].bytes = kPageBytes;
  }
  expect_ok(fetch_any(pages.data(), 3));
  for (const auto& verdict : verdicts(last_)) EXPECT_EQ(verdict.verdict, FARPAGE_READY);
  EXPECT_EQ(memory_, expected);
}

TEST_F(CStructSize, OfANewerProgram) {
  std::array<NewPage, 3> pages;
  const auto known = pages_in(memory_);
  for (size_t i = 0; i < 3; ++i) {
    pages[i].known = known[i];
    pages[i].known.struct_size = sizeof(NewPage);
  }
  expect_ok(fetch_any(pages.data(), 3));
  EXPECT_EQ(verdicts(last_).size(), 3u);
  pages[2].unknown = uint64_t{1} << 40;
  EXPECT_EQ(fetch_any(pages.data(), 3), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("page 2: a field at byte 53 is set"));
}

TEST_F(CStructSize, ThatIsNone) {
  auto pages = pages_in(memory_);
  for (const size_t size :
       {size_t{0}, size_t{8}, sizeof(OldPage) - 8, sizeof(farpage_page_t) + 1, SIZE_MAX}) {
    pages[0].struct_size = size;
    EXPECT_EQ(fetch_any(pages.data(), 1), FARPAGE_INVALID);
    EXPECT_THAT(farpage_last_error(), HasSubstr("page 0: struct_size is " + std::to_string(size)));
  }
}

TEST_F(CStructSize, ThatIsNotTheSameInAllOfAnArray) {
  auto pages = pages_in(memory_);
  pages[1].struct_size = sizeof(OldPage);
  EXPECT_EQ(fetch_any(pages.data(), 3), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("page 1: struct_size is 40, and that of page 0"));
}

TEST_F(CStructSize, OfANotification) {
  const auto completions = make_completions();
  farpage_notification_t notification = FARPAGE_NOTIFICATION_INIT;
  notification.completions = completions.get();
  notification.tag = 7;
  notification.struct_size = offsetof(farpage_notification_t, callback);
  // What lies behind it is not the struct's.
  notification.callback = [](void*) { ADD_FAILURE() << "an older program knows no callback"; };
  expect_ok(fetch_any(nullptr, 0, &notification));
  expect_ok(farpage_ticket_wait_released(last_.get(), kTimeoutUs));
  uint64_t tag = 0;
  size_t taken = 0;
  expect_ok(farpage_completions_take(completions.get(), &tag, 1, &taken));
  EXPECT_EQ(taken, 1u);
  EXPECT_EQ(tag, 7u);
  notification.struct_size = 0;
  EXPECT_EQ(fetch_any(nullptr, 0, &notification), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("notification: struct_size is 0"));
}

}  // namespace
}  // namespace farpage
