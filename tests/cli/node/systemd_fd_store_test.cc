#include "cli/node/systemd_fd_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

class SystemdFdStoreTest : public testing::Test {
 protected:
  SystemdFdStoreTest() { ::setenv("NOTIFY_SOCKET", store_.path().c_str(), 1); }
  ~SystemdFdStoreTest() override { ::unsetenv("NOTIFY_SOCKET"); }

  static UniqueFd new_file() { return UniqueFd(::memfd_create("file", MFD_CLOEXEC)); }
  void say(const std::string& words, const std::vector<int>& files = {}) {
    EXPECT_GT(::sd_pid_notify_with_fds(0, 0, words.c_str(), files.data(),
                                       static_cast<unsigned>(files.size())),
              0);
    store_.receive();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const SystemdFdStore::Held& held : store_.held()) all.push_back(held.name);
    return all;
  }

  using Names = std::vector<std::string>;
  TempDir folder_;
  SystemdFdStore store_ = SystemdFdStore::open(folder_ / "notify").value();
};

TEST_F(SystemdFdStoreTest, FilesAreHeldUntilTheirNameIsRemoved) {
  const UniqueFd one = new_file();
  const UniqueFd two = new_file();
  say("FDSTORE=1\nFDNAME=a", {one.get(), two.get()});
  say("FDSTORE=1\nFDNAME=b", {one.get()});
  EXPECT_EQ(names(), (Names{"a", "a", "b"}));
  say("FDSTOREREMOVE=1\nFDNAME=a");
  EXPECT_EQ(names(), Names{"b"});
  say("FDSTOREREMOVE=1\nFDNAME=c");
  EXPECT_EQ(names(), Names{"b"});
}

TEST_F(SystemdFdStoreTest, AFileIsHeldOnceUnderAName) {
  const UniqueFd file = new_file();
  for (int i = 0; i < 3; ++i) say("FDSTORE=1\nFDNAME=a", {file.get()});
  EXPECT_EQ(names(), Names{"a"});
}

// A cleaner of /tmp removes the socket, and any user may put another one there.
TEST_F(SystemdFdStoreTest, ItMovesToWhereItCanBeReachedWithWhatItHolds) {
  const UniqueFd file = new_file();
  say("FDSTORE=1\nFDNAME=a", {file.get()});
  EXPECT_TRUE(store_.is_reachable());
  std::filesystem::remove(store_.path());
  EXPECT_FALSE(store_.is_reachable());
  const SystemdFdStore anothers = SystemdFdStore::open(store_.path()).value();
  EXPECT_FALSE(store_.is_reachable());

  const std::string path = folder_ / "again";
  ASSERT_TRUE(store_.move_to(path));
  EXPECT_EQ(store_.path(), path);
  EXPECT_TRUE(store_.is_reachable());
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  say("FDSTORE=1\nFDNAME=b", {file.get()});
  EXPECT_EQ(names(), (Names{"a", "b"}));

  EXPECT_FALSE(store_.move_to(folder_ / "no such folder/notify"));
  EXPECT_TRUE(store_.is_reachable()) << "where it was";
}

TEST_F(SystemdFdStoreTest, OtherMessagesAndNamesThatCannotBeHandedOverChangeNothing) {
  const UniqueFd file = new_file();
  say("READY=1", {file.get()});
  say("FDSTORE=1\nFDNAME=a:b", {file.get()});
  say("FDSTORE=1\nFDNAME=a");
  EXPECT_EQ(names(), Names{});
}

}  // namespace
}  // namespace farpage
