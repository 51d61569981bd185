#include "control/message_fields.h"

#include <gtest/gtest.h>

#include "farpage_control.pb.h"

namespace farpage {
namespace {

struct Renamed {
  uint64_t low = 0;
  uint64_t hihg = 0;
};
struct Short {
  uint64_t low = 0;
};
struct Narrow {
  uint32_t low = 0;
  uint64_t high = 0;
};
struct Optional {
  std::optional<uint64_t> low;
  uint64_t high = 0;
};
struct Single {
  PageKey keys;
};

template <typename Struct, typename Wire>
void match() {
  MessageFields<Struct> fields(*Wire::descriptor());
}

TEST(MessageFields, StructThatDoesNotMatchItsMessageEndsTheProgram) {
  match<PageKey, wire::Key>();
  EXPECT_DEATH((match<Renamed, wire::Key>()), "Key.hihg stands in farpage_control.proto");
  EXPECT_DEATH((match<Short, wire::Key>()), "Key has no field without a member");
  EXPECT_DEATH((match<Narrow, wire::Key>()), "Key.low is of its member's kind");
  EXPECT_DEATH((match<Optional, wire::Key>()), "Key.low is optional as its member is");
  EXPECT_DEATH((match<Single, wire::ReportRequest>()), "keys is repeated as its vector is");
  EXPECT_DEATH((match<PageKey, wire::EpochTag>()), "EpochTag.low stands in farpage_control.proto");
}

}  // namespace
}  // namespace farpage
