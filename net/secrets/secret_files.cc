#include "net/secrets/secret_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
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

// The time of the last change of any kind cannot be set, and tells of rights too.
std::string identity_of(const std::vector<std::string>& paths, bool& has_pipe) {
  std::string identity;
  has_pipe = false;
  for (const std::string& path : paths) {
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

std::string digest_of(const std::vector<std::string>& paths) {
  std::string all;
  for (const std::string& path : paths) {
    const auto text = read_small_file(path, "", "");
    all += text ? fmt::format("{}:", text->size()) + *text : "none;";
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int bytes = 0;
  FARPAGE_CHECK(EVP_Digest(all.data(), all.size(), digest.data(), &bytes, EVP_sha256(), nullptr) ==
                1);
  return {reinterpret_cast<const char*>(digest.data()), bytes};
}

}  // namespace

Result<std::unique_ptr<SecretFiles>> SecretFiles::open(Options options) {
  auto made = std::unique_ptr<SecretFiles>(new SecretFiles(std::move(options)));
  const std::string identity = made->identify();
  for (size_t i = 0; i < made->states_.size(); ++i) {
    State& state = made->states_[i];
    state.is_watched = !state.is_pipe_now;
    if (state.is_watched) state.digest = digest_of(made->options_.secrets[i].paths);
  }
  for (const auto& read : made->options_.read(Reads(made->states_.size(), true))) {
    if (!read) return tl::unexpected(read.error());
  }
  made->seen_ = identity;
  // A file that was written just now can change once more without a new time: read_ stays empty, so
  // that it is read once more.
  return made;
}

bool SecretFiles::is_watched() const {
  return std::ranges::any_of(states_, &State::is_watched);
}

// A pipe is read once: that another writer has opened it is no change.
std::string SecretFiles::identify() {
  std::string all;
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (!state.is_watched) continue;
    state.identity = identity_of(options_.secrets[i].paths, state.is_pipe_now);
    all += state.identity + "|";
  }
  return all;
}

std::vector<SecretFiles::Word> SecretFiles::look(bool at_once) {
  std::vector<Word> words;
  const std::string identity = identify();
  const bool is_settled = identity == std::exchange(seen_, identity);
  const bool is_due = at_once || (is_settled && (identity != read_ || failed_));
  Reads reads;
  std::vector<std::string> digests;
  for (size_t i = 0; i < states_.size(); ++i) {
    // What is a pipe now, in the place of a file, would be waited for.
    reads.push_back(is_due && states_[i].is_watched && !states_[i].is_pipe_now);
    digests.push_back(reads[i] ? digest_of(options_.secrets[i].paths) : "");
  }
  const bool reads_any = std::ranges::find(reads, true) != reads.end();
  const Results results = reads_any ? options_.read(reads) : Results(reads.size());
  // What was read at once may be written still, in the same tick of the file's clock.
  if (reads_any && is_settled) read_ = identity;
  if (reads_any) failed_ = false;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (reads[i]) take(i, results[i], digests[i], at_once, words);
    if (at_once && !reads[i]) words.push_back(tell_pipe(i));
    if (const auto expired = tell_expiry(i)) words.push_back(*expired);
  }
  return words;
}

// Takes note of what was read of one, and tells it.
void SecretFiles::take(size_t secret, const Result<void>& result, const std::string& digest,
                       bool at_once, std::vector<Word>& words) {
  State& state = states_[secret];
  if (!result) {
    failed_ = true;
    if (const auto word = tell_failure(secret, result.error(), at_once)) words.push_back(*word);
    return;
  }
  state.told.clear();
  if (digest == std::exchange(state.digest, digest)) return;
  words.push_back(
      {fmt::format("{} has changed: new connections use it", options_.secrets[secret].what),
       false});
}

SecretFiles::Word SecretFiles::tell_pipe(size_t secret) const {
  const std::string& what = options_.secrets[secret].what;
  if (states_[secret].is_watched) {
    return {fmt::format("{} was not read again: a pipe stands in the place of a file. The "
                        "previous one stays in use: put a regular file there",
                        what),
            true};
  }
  return {fmt::format("{} was not read again, for it came from a pipe, which is read once: to "
                      "renew it, start this process again, or have it name a regular file next "
                      "time, which is read again when it changes",
                      what),
          true};
}

// Once for each change. What comes too soon waits for a later look, which fails as this one did.
std::optional<SecretFiles::Word> SecretFiles::tell_failure(size_t secret, const Error& error,
                                                           bool at_once) {
  State& state = states_[secret];
  const std::string told = state.identity + error.message;
  const uint64_t now = boottime_clock().now_ns();
  if (!at_once && (told == state.told || now < state.tell_again_ns)) return std::nullopt;
  state.told = told;
  state.tell_again_ns = now + kTellNs;
  const int64_t expires = options_.secrets[secret].expires_s();
  return Word{fmt::format("{} has changed and cannot be used: {}. The previous one stays in use{}; "
                          "the file is read again every second",
                          options_.secrets[secret].what, error.message,
                          expires == 0 ? "" : ", and is valid until " + utc(expires)),
              true};
}

std::optional<SecretFiles::Word> SecretFiles::tell_expiry(size_t secret) {
  const int64_t expires = options_.secrets[secret].expires_s();
  if (expires == 0 || wall_clock_s() < expires) return std::nullopt;
  if (std::exchange(states_[secret].told_expiry_s, expires) == expires) return std::nullopt;
  return Word{fmt::format("{} has expired at {}: new connections fail until its file holds another",
                          options_.secrets[secret].what, utc(expires)),
              true};
}

}  // namespace farpage
