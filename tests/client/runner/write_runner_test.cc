#include "client/runner/write_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "client/runner/ticket.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kLongNs = 60 * kSecond;  // no test waits for it

Ticket submit_put(WriteRunner& runner, std::span<const PutRequest> puts, uint64_t deadline_ns) {
  Submission* submission = runner.pool()->take();
  submission->kind = SubmissionKind::kPut;
  submission->puts.assign(puts.begin(), puts.end());
  submission->deadline_ns = deadline_ns;
  Ticket ticket(runner.pool(), *submission);
  runner.submit(*submission);
  return ticket;
}

// A node that says nothing keeps the writer: more pages than its staging holds are to be written.
TEST(WriteRunner, APutThatEndsInTheQueueIsCountedAndNamesANode) {
  constexpr size_t kPages = 512;
  Cluster cluster;
  const auto client = cluster.connect();
  Engine engine(*client, Cluster::small_options().page_bytes, 1);
  std::vector<PutRequest> many;
  for (size_t i = 0; i < kPages; ++i) many.push_back({test_key(i), engine.slice(0)});
  WriteRunner runner(*client, {.queue_depth = 4});
  cluster.hold();
  const Ticket first = submit_put(runner, many, engine.deadline(kLongNs));
  const Ticket behind = submit_put(runner, std::span(many).first(3), engine.deadline(kMillisecond));
  behind.wait();
  EXPECT_EQ(client->puts_failed(), 3u);
  EXPECT_TRUE(std::ranges::all_of(
      behind.results(), [](const PutResult& result) { return result.code == Code::kTimeout; }));
  EXPECT_THAT(behind.why(), testing::HasSubstr("the puts before it"));
  EXPECT_THAT(behind.why(), testing::HasSubstr("memory node"));
  cluster.go_on();
  first.wait();
  EXPECT_EQ(client->puts_acknowledged() + client->puts_failed(), kPages + 3);
}

}  // namespace
}  // namespace farpage
