// Memory of clients that a node reads in place, at the level of messages: what a client may ask.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <optional>
#include <vector>

#include "base/units.h"
#include "integrity/crc32c.h"
#include "net/runtime/asio_runtime.h"
#include "node/node.h"
#include "tests/support/shared_pool.h"
#include "tests/support/temp_dir.h"
#include "transport/shm/shm_fabric.h"
#include "transport/shm/source_file.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint64_t kPages = 8;

class SourcesOfClients : public ::testing::Test {
 protected:
  SourcesOfClients() : node_(make_memory_node(options(), runtime_, *fabric_).value()) {
    for (uint64_t i = 0; i < pool_.bytes(); ++i) pool_.data()[i] = static_cast<std::byte>(i % 251);
  }
  ~SourcesOfClients() override {
    runtime_.run([this] { node_.reset(); });
  }

  NodeOptions options() const {
    NodeOptions options;
    options.state = dir_ / "node.state";
    options.page_bytes = kPageBytes;
    options.pool_bytes = kMiB;
    options.scrub_bytes_per_s = 0;
    return options;
  }

  ClientId greeted() {
    ClientId id = 0;
    runtime_.run([&] { id = node_->connected().value(); });
    HelloRequest hello;
    hello.staging_bytes = kMiB;
    const Reply reply = ask(id, hello);
    EXPECT_EQ(std::get<HelloReply>(reply).sources, kMaxSources);
    return id;
  }
  Reply ask(ClientId client, Request request) {
    std::promise<Reply> answer;
    runtime_.run([&] {
      node_->handle(client, std::move(request),
                    [&answer](Reply reply) { answer.set_value(std::move(reply)); });
    });
    return answer.get_future().get();
  }
  StatusReply status() {
    StatusReply status;
    runtime_.run([&] { status = node_->status(); });
    return status;
  }

  SourceRequest exported(uint32_t number) {
    return {number, shm::export_file_of({pool_.data(), pool_.bytes()})};
  }
  // kOk: it was taken.
  Code share(ClientId client, SourceRequest request) {
    const Reply reply = ask(client, std::move(request));
    const auto* refusal = std::get_if<Refusal>(&reply);
    EXPECT_TRUE(refusal != nullptr || std::holds_alternative<SourceReply>(reply));
    return refusal != nullptr ? refusal->code : Code::kOk;
  }

  CommitPage page(uint32_t source, uint64_t offset, uint32_t bytes = kPageBytes) const {
    CommitPage page;
    page.key = make_page_key("sources", std::to_string(offset));
    page.source = source;
    page.staging_offset = offset;
    page.payload_bytes = bytes;
    const bool is_within = offset <= pool_.bytes() && bytes <= pool_.bytes() - offset;
    if (is_within) page.payload_crc = crc32c(0, pool_.data() + offset, bytes);
    return page;
  }
  std::vector<Code> put(ClientId client, std::vector<CommitPage> pages) {
    CommitRequest commit;
    commit.immediate = 1;  // which never comes: nothing was written to the staging
    commit.patience_ns = 50 * kMillisecond;
    commit.pages = std::move(pages);
    const Reply reply = ask(client, std::move(commit));
    std::vector<Code> codes;
    for (const CommitResult& result : std::get<CommitReply>(reply).results) {
      codes.push_back(result.code);
    }
    return codes;
  }

  const TempDir dir_;
  SharedPool pool_{kPages * kPageBytes};
  AsioRuntime runtime_;
  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  std::unique_ptr<NodeService> node_;
};

TEST_F(SourcesOfClients, PagesComeFromThereWithoutAWriteToTheStaging) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  EXPECT_EQ(status().sources, 1u);
  EXPECT_EQ(put(client, {page(7, 0), page(7, kPageBytes + 3, 100)}),
            (std::vector{Code::kOk, Code::kOk}));
  EXPECT_EQ(status().puts_in_place, 2u);
  EXPECT_EQ(status().puts, 2u);
}

// One page of a commit is in the staging: its immediate has to come.
TEST_F(SourcesOfClients, StagedPagesAreWaitedForAllTheSame) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  EXPECT_EQ(put(client, {page(7, 0), page(0, 0)}), (std::vector{Code::kAborted, Code::kAborted}));
  EXPECT_EQ(status().puts_in_place, 0u);
}

TEST_F(SourcesOfClients, PagesOutsideOfASourceOrOfNoneAreRefused) {
  const ClientId client = greeted();
  const ClientId other = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  EXPECT_EQ(put(client, {page(7, pool_.bytes() - 10, 11), page(7, ~uint64_t{0}, 1), page(7, 0, 0),
                         page(8, 0), page(7, 0, 2 * kPageBytes), page(7, 0)}),
            (std::vector{Code::kAborted, Code::kAborted, Code::kInvalid, Code::kInvalid,
                         Code::kInvalid, Code::kOk}));
  EXPECT_EQ(put(other, {page(7, 0)}), std::vector{Code::kInvalid});  // it is the first client's
  EXPECT_EQ(status().puts, 1u);
}

TEST_F(SourcesOfClients, BytesThatChangeUnderWayAreRefused) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  const CommitPage before = page(7, kPageBytes);
  pool_.data()[kPageBytes + 9] ^= std::byte{1};
  EXPECT_EQ(put(client, {before}), std::vector{Code::kAborted});
  EXPECT_EQ(put(client, {page(7, kPageBytes)}), std::vector{Code::kOk});
}

TEST_F(SourcesOfClients, AFileThatIsShortenedCostsItsPagesAndNotTheNode) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  const CommitPage first = page(7, 0);
  const CommitPage last = page(7, (kPages - 1) * kPageBytes);
  pool_.resize(kPageBytes);
  EXPECT_EQ(put(client, {last, first}), (std::vector{Code::kAborted, Code::kOk}));
}

TEST_F(SourcesOfClients, AClientHasNoMoreThanTheNodeSaid) {
  const ClientId client = greeted();
  for (uint32_t number = 1; number <= kMaxSources; ++number) {
    ASSERT_EQ(share(client, exported(number)), Code::kOk);
  }
  EXPECT_EQ(share(client, exported(kMaxSources + 1)), Code::kExhausted);
  EXPECT_EQ(share(greeted(), exported(1)), Code::kOk);  // others have their own
  EXPECT_EQ(share(client, {3, {}}), Code::kOk);
  EXPECT_EQ(share(client, exported(kMaxSources + 1)), Code::kOk);
  EXPECT_EQ(status().sources, kMaxSources + 1);
}

TEST_F(SourcesOfClients, NumbersAreNotTakenTwiceAndNoneIsThatOfTheStaging) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  EXPECT_EQ(share(client, exported(7)), Code::kInvalid);
  EXPECT_EQ(share(client, exported(0)), Code::kInvalid);
  EXPECT_EQ(share(client, {9, RegionExport{}}), Code::kInvalid);
  EXPECT_EQ(share(client, {10, {}}), Code::kOk);  // nothing to forget
  EXPECT_EQ(status().sources, 1u);
}

TEST_F(SourcesOfClients, WhatIsForgottenIsNotReadAndGoesWithItsClient) {
  const ClientId client = greeted();
  ASSERT_EQ(share(client, exported(7)), Code::kOk);
  ASSERT_EQ(share(client, {7, {}}), Code::kOk);
  EXPECT_EQ(put(client, {page(7, 0)}), std::vector{Code::kInvalid});
  ASSERT_EQ(share(client, exported(8)), Code::kOk);
  EXPECT_EQ(status().sources, 1u);
  runtime_.run([&] { node_->disconnected(client); });
  EXPECT_EQ(status().sources, 0u);
}

TEST_F(SourcesOfClients, AHelloComesFirst) {
  ClientId stranger = 0;
  runtime_.run([&] { stranger = node_->connected().value(); });
  EXPECT_EQ(share(stranger, exported(7)), Code::kProtocol);
}

}  // namespace
}  // namespace farpage
