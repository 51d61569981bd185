#include "net/secrets/file_rights.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/support/needs_root.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uid_t kRoot = 0;
constexpr uid_t kUser = 12345;
constexpr uid_t kStranger = 54321;

struct stat file_of(uid_t owner, mode_t mode) {
  struct stat status = {};
  status.st_uid = owner;
  status.st_gid = 2000;
  status.st_mode = S_IFREG | mode;
  return status;
}

bool is_fine(uid_t owner, mode_t mode, uid_t user) {
  return judge_rights(file_of(owner, mode), user, "/s", "the token").has_value();
}

std::string refusal(uid_t owner, mode_t mode, uid_t user) {
  const auto judged = judge_rights(file_of(owner, mode), user, "/s", "the token");
  if (judged) return "";
  EXPECT_EQ(judged.error().code, Code::kDenied);
  return judged.error().message;
}

TEST(FileRights, OwnersAloneIsFineWhoeverThatIs) {
  for (const uid_t owner : {kRoot, kUser, kStranger}) {
    for (const mode_t mode : {0400u, 0600u, 0700u}) {
      EXPECT_TRUE(is_fine(owner, mode, kUser)) << owner << " " << mode;
      EXPECT_TRUE(is_fine(owner, mode, kRoot)) << owner << " " << mode;
    }
  }
}

// PostgreSQL's rule for server.key, which Kubernetes' fsGroup meets.
TEST(FileRights, GroupMayReadWhatIsRoots) {
  for (const uid_t user : {kRoot, kUser}) {
    EXPECT_TRUE(is_fine(kRoot, 0440, user));
    EXPECT_TRUE(is_fine(kRoot, 0640, user));
    for (const mode_t mode : {0660u, 0650u, 0620u, 0610u, 0644u, 0444u, 0604u, 0601u, 0642u}) {
      EXPECT_FALSE(is_fine(kRoot, mode, user)) << std::oct << mode;
    }
  }
  EXPECT_FALSE(is_fine(kUser, 0440, kUser));
  EXPECT_FALSE(is_fine(kStranger, 0640, kUser));
}

TEST(FileRights, AdviceIsOneThatTheUserCanFollow) {
  EXPECT_NE(refusal(kUser, 0644, kUser).find("run 'chmod 600 /s'"), std::string::npos);
  EXPECT_NE(refusal(kRoot, 0644, kRoot).find("run 'chmod 600 /s'"), std::string::npos);
  const std::string roots = refusal(kRoot, 0444, kUser);
  EXPECT_NE(roots.find("'chmod 640 /s' as root"), std::string::npos) << roots;
  EXPECT_NE(roots.find("defaultMode: 0440"), std::string::npos) << roots;
  EXPECT_EQ(roots.find("chmod 600"), std::string::npos) << roots;
  const std::string strangers = refusal(kStranger, 0640, kUser);
  EXPECT_NE(strangers.find("it is 54321:2000, mode 0640"), std::string::npos) << strangers;
  EXPECT_NE(strangers.find("chown 12345 /s"), std::string::npos) << strangers;
}

TEST(SmallFile, IsReadAsItIs) {
  const TempDir dir;
  const std::string text("a\0b\n", 4);
  std::ofstream(dir / "f") << text;
  EXPECT_EQ(read_small_file(dir / "f", "it", "").value(), text);
}

TEST(SmallFile, AdviceFitsTheError) {
  const TempDir dir;
  const auto why_not = [](const std::string& path) {
    return read_small_file(path, "the token", "make one").error().message;
  };
  EXPECT_EQ(why_not(dir / "none"), "cannot read the token in '" + (dir / "none") +
                                       "' (No such file or directory): make one");
  std::ofstream(dir / "f") << "x";
  EXPECT_NE(why_not(dir / "f/g").find("make one"), std::string::npos);
  const std::string folder = why_not(dir.path());
  EXPECT_NE(folder.find("this is a folder"), std::string::npos) << folder;
  EXPECT_EQ(folder.find("make one"), std::string::npos);
  std::ofstream(dir / "long") << std::string(2 << 20, 'x');
  EXPECT_NE(why_not(dir / "long").find("longer than 1 MiB"), std::string::npos);
}

TEST(SmallFile, IsReadFromAPipeToItsEnd) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "f").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(dir / "f") << "x" << std::flush << "y"; });
  EXPECT_EQ(read_small_file(dir / "f", "it", "").value(), "xy");
  writer.join();
}

// It may have come to the place of a file just now.
TEST(SmallFile, PipeThatNobodyWritesOrEndsIsWaitedForSoLongAndNoLonger) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "f").c_str(), 0600), 0);
  const auto why_not = [&] {
    return read_small_file(dir / "f", "the token", "make one", 10 * kMillisecond).error().message;
  };
  EXPECT_NE(why_not().find("nobody has written all of it within 0.01 s"), std::string::npos);
  const UniqueFd both_ends(::open((dir / "f").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(both_ends.get(), "half", 4), 4);
  EXPECT_NE(why_not().find("nobody has written all of it"), std::string::npos);
}

TEST(PrivateFile, IsReadByItsOwnerAlone) {
  const TempDir dir;
  std::ofstream(dir / "f") << "x";
  for (const mode_t mode : {0600u, 0644u}) {
    ASSERT_EQ(::chmod((dir / "f").c_str(), mode), 0);
    EXPECT_EQ(read_private_file(dir / "f", "it", "").has_value(), mode == 0600u);
  }
}

// As another user, for nothing is closed to root.
TEST(SmallFile, ClosedOnesSayWhoMayOpenThemAndWhatWouldHelp) {
  if (const char* why = why_no_root()) GTEST_SKIP() << why;
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  std::ofstream(dir / "f") << "x";
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0400), 0);
  ASSERT_EQ(::mkdir((dir / "closed").c_str(), 0700), 0);
  std::ofstream(dir / "closed/f") << "x";
  std::string file;
  std::string folder;
  ASSERT_EQ(::setresuid(kUser, kUser, 0), 0);
  file = read_small_file(dir / "f", "the token", "make one with openssl").error().message;
  folder = read_small_file(dir / "closed/f", "the token", "make one with openssl").error().message;
  ASSERT_EQ(::setresuid(0, 0, 0), 0);
  EXPECT_NE(file.find("the file is root:root, mode 0400"), std::string::npos) << file;
  EXPECT_NE(file.find("as the user '12345'"), std::string::npos) << file;
  EXPECT_NE(file.find("chown 12345 " + (dir / "f")), std::string::npos) << file;
  EXPECT_EQ(file.find("openssl"), std::string::npos) << file;
  EXPECT_NE(folder.find("the folder '" + (dir / "closed") + "' (root:root, mode 0700) is closed"),
            std::string::npos)
      << folder;
}

}  // namespace
}  // namespace farpage
