#include "net/socket_rights.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>

#include <charconv>
#include <vector>

#include "net/secrets/file_rights.h"

namespace farpage {
namespace {

constexpr mode_t kOwners = 0600;
constexpr mode_t kGroups = 0660;
constexpr size_t kGroupBytes = 64 * 1024;  // of what getgrnam_r tells, with all members

Result<mode_t> parse_mode(const std::string& text) {
  unsigned mode = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, mode, 8);
  if (parsed.ec != std::errc() || parsed.ptr != end || mode > 0777) {
    return fail(Code::kInvalid,
                fmt::format("node.socket_mode is \"{}\": write rights in octal digits, such as "
                            "\"0660\"",
                            text));
  }
  if ((mode & kOwners) != kOwners) {
    return fail(
        Code::kInvalid,
        fmt::format("node.socket_mode is \"{}\", which shuts out the node's own user: write "
                    "\"{:04o}\"",
                    text, mode | kOwners));
  }
  for (const unsigned write : {S_IWGRP, S_IWOTH}) {
    const unsigned all = write << 1 | write | write >> 1;
    if ((mode & all) == 0 || (mode & write) != 0) continue;
    return fail(
        Code::kInvalid,
        fmt::format("node.socket_mode is \"{}\": a user who may read a socket but not write to it "
                    "cannot connect; write \"{:04o}\", or \"{:04o}\" to keep them out",
                    text, mode | write, mode & ~all));
  }
  return mode;
}

Result<gid_t> find_group(const std::string& text) {
  gid_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number != static_cast<gid_t>(-1)) {
    return number;
  }
  ::group entry = {};
  ::group* found = nullptr;
  std::vector<char> buffer(kGroupBytes);
  if (::getgrnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->gr_gid;
  }
  return fail(Code::kInvalid,
              fmt::format("node.socket_group is \"{}\", and this machine knows no such group: name "
                          "one that 'getent group' shows, or give its number",
                          text));
}

}  // namespace

Result<SocketRights> SocketRights::parse(const std::string& mode, const std::string& group) {
  SocketRights rights;
  if (!group.empty()) {
    auto found = find_group(group);
    if (!found) return tl::unexpected(found.error());
    rights = {kGroups, *found};
  }
  if (mode.empty()) return rights;
  auto parsed = parse_mode(mode);
  if (!parsed) return tl::unexpected(parsed.error());
  rights.mode = *parsed;
  if (rights.group && (rights.mode & S_IWGRP) == 0) {
    return fail(
        Code::kInvalid,
        fmt::format("node.socket_group is given, and node.socket_mode \"{}\" shuts the group "
                    "out: write \"{:04o}\", or leave one of them out",
                    mode, rights.mode | kGroups));
  }
  return rights;
}

std::string advise_on_denied_socket(const std::string& path) {
  if (const std::string folder = closed_folder(path); !folder.empty()) {
    return fmt::format(
        "this user may not enter the folder {} ({}): run 'chmod o+x {}' there, or listen elsewhere",
        folder, describe_rights(folder), folder);
  }
  return fmt::format(
      "the socket is {}, and this user may not write to it: put the user into a group, and at the "
      "node set node.socket_group to that group (node.socket_mode is 0660 then), or run this "
      "command as the node's user",
      describe_rights(path));
}

}  // namespace farpage
