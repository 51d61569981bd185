#include "cli/node/held_pools.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kFleet = 0xf;

UniqueFd new_memory() {
  return UniqueFd(::memfd_create("pool", MFD_CLOEXEC));
}
UniqueFd duplicate(const UniqueFd& file) {
  return UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}
ino_t inode(const UniqueFd& file) {
  struct stat status = {};
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  return status.st_ino;
}
// Flags are the description's: what one descriptor sets, another one of it shows.
bool is_same_description(const UniqueFd& one, const UniqueFd& other) {
  const int flags = ::fcntl(one.get(), F_GETFL);
  const int before = ::fcntl(other.get(), F_GETFL);
  ::fcntl(one.get(), F_SETFL, flags ^ O_NONBLOCK);
  const bool is_same = ::fcntl(other.get(), F_GETFL) != before;
  ::fcntl(one.get(), F_SETFL, flags);
  return is_same;
}

// As systemd handles a service's messages (its service_add_fd_store): it does not take a
// description that it has, under any name, nor one too many. Without kcmp(2) every description of a
// file is the same to it.
class Manager {
 public:
  struct Options {
    size_t most = 4;
    bool has_kcmp = true;
  };

  explicit Manager(Options options) : options_(options) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ / "notify";
    std::memcpy(address.sun_path, path.data(), path.size());
    socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Manager() { ::unsetenv("NOTIFY_SOCKET"); }

  // How many there were; `after` each of them.
  size_t hear(const std::function<void()>& after = [] {}) {
    size_t messages = 0;
    for (; hear_one(); ++messages) after();
    return messages;
  }
  // As the next process has them.
  std::map<std::string, UniqueFd> hand_over() const {
    std::map<std::string, UniqueFd> files;
    for (const Held& held : held_) files.insert_or_assign(held.name, duplicate(held.file));
    return files;
  }
  std::vector<ino_t> inodes() const {
    std::vector<ino_t> all;
    for (const Held& held : held_) all.push_back(inode(held.file));
    return all;
  }

 private:
  struct Held {
    std::string name;
    UniqueFd file;
  };

  bool hear_one() {
    std::array<char, 1024> text = {};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    iovec bytes = {text.data(), text.size()};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return false;
    UniqueFd file;
    if (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
      file.reset(fd);
    }
    apply({text.data(), static_cast<size_t>(got)}, std::move(file));
    return true;
  }

  void apply(const std::string& words, UniqueFd file) {
    const std::string name = words.substr(words.find("FDNAME=") + std::strlen("FDNAME="));
    if (words.starts_with("FDSTOREREMOVE=1\n")) {
      std::erase_if(held_, [&](const Held& held) { return held.name == name; });
      return;
    }
    ASSERT_TRUE(words.starts_with("FDSTORE=1\n")) << words;
    ASSERT_TRUE(file.valid());
    const bool is_known = std::ranges::any_of(held_, [&](const Held& held) {
      return options_.has_kcmp ? is_same_description(held.file, file)
                               : inode(held.file) == inode(file);
    });
    if (!is_known && held_.size() < options_.most) held_.push_back({name, std::move(file)});
  }

  const Options options_;
  TempDir folder_;
  UniqueFd socket_;
  std::vector<Held> held_;
};

// Goes on with the memory of the run before, where that is held.
ino_t go_on(PoolHandoff& pool, bool copies = false) {
  UniqueFd memory = pool.kept("pool");
  if (!memory.valid()) pool.keep("pool", {});
  if (!memory.valid() || copies) memory = new_memory();
  pool.keep("pool", memory);
  return inode(memory);
}
ino_t run(Manager& manager, uint64_t epoch, bool copies = false) {
  HeldPools pools(manager.hand_over());
  pools.go_on_from(epoch - 1);
  PoolHandoff& pool = pools.pool_of("", kFleet);
  pools.give_up_others();
  const ino_t memory = go_on(pool, copies);
  pools.began(epoch);
  return memory;
}
// The same, of a process with these tenants, by their tokens.
std::map<std::string, ino_t> run_tenants(Manager& manager, uint64_t epoch,
                                         const std::vector<std::string>& owners,
                                         uint64_t fleet = kFleet) {
  HeldPools pools(manager.hand_over());
  pools.go_on_from(epoch - 1);
  std::map<std::string, PoolHandoff*> keepers;
  for (const std::string& owner : owners) keepers[owner] = &pools.pool_of(owner, fleet);
  pools.give_up_others();
  std::map<std::string, ino_t> memories;
  for (const auto& [owner, keeper] : keepers) memories[owner] = go_on(*keeper);
  pools.began(epoch);
  return memories;
}

TEST(HeldPools, MemoryIsHandedOnFromRunToRun) {
  for (const Manager::Options options : {Manager::Options{}, {1, true}, {4, false}, {1, false}}) {
    Manager manager(options);
    const ino_t first = run(manager, 1);
    manager.hear();
    for (uint64_t epoch = 2; epoch < 5; ++epoch) {
      EXPECT_EQ(run(manager, epoch), first) << options.most << options.has_kcmp;
      manager.hear();
      EXPECT_EQ(manager.inodes(), std::vector<ino_t>{first}) << options.most << options.has_kcmp;
    }
  }
}

TEST(HeldPools, ACopyTakesTheFormerMemorysPlace) {
  for (const Manager::Options options : {Manager::Options{}, {1, true}, {4, false}, {1, false}}) {
    Manager manager(options);
    run(manager, 1);
    manager.hear();
    const ino_t copy = run(manager, 2, true);
    manager.hear();
    EXPECT_EQ(manager.inodes(), std::vector<ino_t>{copy}) << options.most << options.has_kcmp;
    EXPECT_EQ(run(manager, 3), copy);
  }
}

TEST(HeldPools, AProcessThatEndsAnywhereLosesNothing) {
  for (const bool copies : {false, true}) {
    Manager manager({});
    run(manager, 1);
    manager.hear();
    run(manager, 2, copies);
    EXPECT_GT(manager.hear([&] { EXPECT_FALSE(manager.inodes().empty()) << copies; }), 1u);
  }
}

TEST(HeldPools, ARunThatEndsBeforeItHasAnEpochLeavesWhatItFound) {
  Manager manager({});
  const ino_t first = run(manager, 1);
  manager.hear();
  {
    HeldPools pools(manager.hand_over());
    pools.go_on_from(1);
    PoolHandoff& pool = pools.pool_of("", kFleet);
    pools.give_up_others();
    pool.keep("pool", pool.kept("pool"));
  }
  EXPECT_EQ(manager.hear(), 0u);
  EXPECT_EQ(run(manager, 2), first);
}

TEST(HeldPools, OfMemoryThatIsHeldAlreadyNothingIsSaid) {
  Manager manager({});
  HeldPools pools({});
  pools.go_on_from(0);
  PoolHandoff& pool = pools.pool_of("", kFleet);
  const UniqueFd memory = new_memory();
  pool.keep("pool", memory);
  pools.began(1);
  EXPECT_EQ(manager.hear(), 1u);
  // A member that was left out takes its memory once more.
  pool.keep("pool", pool.kept("pool"));
  EXPECT_EQ(manager.hear(), 0u);
  // Or, where clients can reach that still, a copy.
  const UniqueFd copy = new_memory();
  pool.keep("pool", copy);
  EXPECT_GT(manager.hear(), 0u);
  EXPECT_EQ(manager.inodes(), std::vector<ino_t>{inode(copy)});
}

TEST(HeldPools, OnlyTheRunJustBeforeIsTakenUp) {
  Manager manager({});
  const ino_t first = run(manager, 1);
  manager.hear();
  EXPECT_NE(run(manager, 3), first) << "one between may have put and removed without it";
  manager.hear();
  EXPECT_EQ(manager.inodes().size(), 1u);
}

TEST(HeldPools, WhatIsKeptNoMoreIsHeldNoMore) {
  Manager manager({});
  run(manager, 1);
  manager.hear();
  {
    HeldPools pools(manager.hand_over());
    pools.go_on_from(1);
    pools.pool_of("", kFleet).keep({}, {});
    manager.hear();
    EXPECT_TRUE(manager.inodes().empty());
  }
  run(manager, 5);
  manager.hear();
  HeldPools pools(manager.hand_over());
  pools.give_up_others();  // as of a member of a list, of which nothing is held
  manager.hear();
  EXPECT_TRUE(manager.inodes().empty());
}

TEST(HeldPools, EachTenantHasItsOwnAgainWhateverTheirOrder) {
  for (const Manager::Options options : {Manager::Options{}, {2, true}, {4, false}, {2, false}}) {
    Manager manager(options);
    const auto first = run_tenants(manager, 1, {"a0", "b0"});
    manager.hear();
    EXPECT_NE(first.at("a0"), first.at("b0"));
    for (uint64_t epoch = 2; epoch < 5; ++epoch) {
      EXPECT_EQ(run_tenants(manager, epoch, {"b0", "a0"}), first)
          << options.most << options.has_kcmp;
      manager.hear();
      EXPECT_THAT(manager.inodes(), testing::UnorderedElementsAre(first.at("a0"), first.at("b0")))
          << options.most << options.has_kcmp;
    }
  }
}
TEST(HeldPools, ATenantThatIsNewTakesNothingOfTheOthers) {
  Manager manager({});
  const auto first = run_tenants(manager, 1, {"a0", "b0"});
  manager.hear();
  const auto second = run_tenants(manager, 2, {"a0", "c0"});
  manager.hear();
  EXPECT_EQ(second.at("a0"), first.at("a0"));
  EXPECT_NE(second.at("c0"), first.at("b0"));
  EXPECT_THAT(manager.inodes(), testing::UnorderedElementsAre(second.at("a0"), second.at("c0")));
  // Nor one whose token is the beginning of another's.
  const auto third = run_tenants(manager, 3, {"a", "c0"});
  manager.hear();
  EXPECT_NE(third.at("a"), first.at("a0"));
  EXPECT_EQ(third.at("c0"), second.at("c0"));
}
TEST(HeldPools, WhatTenantsKeptIsNobodyElsesNorTheOtherWayAbout) {
  Manager manager({});
  const auto tenants = run_tenants(manager, 1, {"a0"});
  manager.hear();
  const ino_t alone = run(manager, 2);
  manager.hear();
  EXPECT_NE(alone, tenants.at("a0"));
  EXPECT_EQ(manager.inodes(), std::vector<ino_t>{alone});
  EXPECT_NE(run_tenants(manager, 3, {"a0"}).at("a0"), alone);
  manager.hear();
  EXPECT_EQ(manager.inodes().size(), 1u);
}
TEST(HeldPools, OfAnotherFleetNothingIsTakenUp) {
  Manager manager({});
  const auto first = run_tenants(manager, 1, {"a0"}, 0xf);
  manager.hear();
  EXPECT_NE(run_tenants(manager, 2, {"a0"}, 0xe), first);
  manager.hear();
  EXPECT_EQ(manager.inodes().size(), 1u);
}
TEST(HeldPools, AProcessOfTenantsThatEndsAnywhereLosesNothing) {
  Manager manager({});
  const auto first = run_tenants(manager, 1, {"a0", "b0"});
  manager.hear();
  run_tenants(manager, 2, {"a0", "b0"});
  const auto both = testing::IsSupersetOf({first.at("a0"), first.at("b0")});
  EXPECT_GT(manager.hear([&] { EXPECT_THAT(manager.inodes(), both); }), 3u);
}

}  // namespace
}  // namespace farpage
