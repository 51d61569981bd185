#include "net/secrets/secret_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "net/secrets/file_rights.h"

namespace farpage {
namespace {

constexpr uint64_t kTellNs = 10 * kSecond;

int64_t wall_clock_s() {
  return static_cast<int64_t>(realtime_clock().now_ns() / kSecond);
}

std::string utc(int64_t time_s) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(time_s)));
}

}  // namespace

Result<std::unique_ptr<SecretFiles>> SecretFiles::open(Options options) {
  auto made = std::unique_ptr<SecretFiles>(new SecretFiles(std::move(options)));
  bool has_pipe = false;
  const std::string identity = made->identify(has_pipe);
  made->is_watched_ = !has_pipe;
  if (made->is_watched_) made->digest_ = made->digest();
  if (auto read = made->options_.read(); !read) return tl::unexpected(read.error());
  made->seen_ = identity;
  // A file that was written just now can change once more without a new time: read_ stays empty, so
  // that it is read once more.
  return made;
}

// The time of the last change of any kind cannot be set, and tells of rights too.
std::string SecretFiles::identify(bool& has_pipe) const {
  std::string identity;
  for (const std::string& path : options_.paths) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
      identity += fmt::format("error {};", errno);
      continue;
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) has_pipe = true;
    identity += fmt::format("{}:{}:{}:{}.{}:{}.{};", status.st_dev, status.st_ino, status.st_size,
                            status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                            status.st_ctim.tv_nsec);
  }
  return identity;
}

std::string SecretFiles::digest() const {
  std::string all;
  for (const std::string& path : options_.paths) {
    const auto text = read_small_file(path, "", "");
    all += text ? fmt::format("{}:", text->size()) + *text : "none;";
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int bytes = 0;
  FARPAGE_CHECK(EVP_Digest(all.data(), all.size(), digest.data(), &bytes, EVP_sha256(), nullptr) ==
                1);
  return {reinterpret_cast<const char*>(digest.data()), bytes};
}

std::optional<SecretFiles::Word> SecretFiles::look(bool at_once) {
  if (!is_watched_) return tell_expiry();
  bool has_pipe = false;
  const std::string identity = identify(has_pipe);
  if (has_pipe) return tell_expiry();  // in the place of a file: it would be waited for
  const bool is_settled = identity == std::exchange(seen_, identity);
  if (!at_once && (!is_settled || (identity == read_ && !failed_))) return tell_expiry();
  const std::string now_holds = digest();
  if (auto read = options_.read(); !read) {
    failed_ = true;
    auto word = tell_failure(read.error(), at_once);
    return word ? word : tell_expiry();
  }
  // A file that was just read may still be written in the same tick of its clock.
  if (is_settled) read_ = identity;
  failed_ = false;
  told_.clear();
  if (now_holds == std::exchange(digest_, now_holds)) return std::nullopt;
  return Word{fmt::format("{} has changed: new connections use it", options_.what), false};
}

// Once for each change. An error that comes too soon waits for a later look, which fails as this
// one did.
std::optional<SecretFiles::Word> SecretFiles::tell_failure(const Error& error, bool at_once) {
  const std::string told = seen_ + error.message;
  const uint64_t now = boottime_clock().now_ns();
  if (!at_once && (told == told_ || now < tell_again_ns_)) return std::nullopt;
  told_ = told;
  tell_again_ns_ = now + kTellNs;
  const int64_t expires = options_.expires_s();
  return Word{fmt::format("{} has changed and cannot be used: {}. The previous one stays in use{}; "
                          "the file is read again every second",
                          options_.what, error.message,
                          expires == 0 ? "" : ", and is valid until " + utc(expires)),
              true};
}

std::optional<SecretFiles::Word> SecretFiles::tell_expiry() {
  const int64_t expires = options_.expires_s();
  if (expires == 0 || wall_clock_s() < expires) return std::nullopt;
  if (std::exchange(told_expiry_s_, expires) == expires) return std::nullopt;
  return Word{fmt::format("{} has expired at {}: new connections fail until its file holds another",
                          options_.what, utc(expires)),
              true};
}

}  // namespace farpage
