#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace farpage {

// The files of one secret (a token; a certificate with its key and its CA), which are read again
// when one of them has changed: when it is written anew, replaced, or a link on its way leads
// elsewhere. One thread at a time.
class SecretFiles {
 public:
  struct Options {
    std::string what;  // in messages: "the token in '/etc/token'"
    std::vector<std::string> paths;
    // Takes into use what the files hold now; an error leaves in use what was.
    std::function<Result<void>()> read;
    // When what is in use ends, in seconds since 1970; 0: never.
    std::function<int64_t()> expires_s = [] { return int64_t{0}; };
  };
  // Reads them for the first time. A path that is not a regular file (a pipe) is read this once.
  static Result<std::unique_ptr<SecretFiles>> open(Options options);

  struct Word {
    std::string text;
    bool is_warning;
  };
  // Blocks on files. Reads what has changed since, once two looks in a row have found the same, for
  // it may be half written; `at_once` at the first, and whether or not it seems to have changed.
  // Tries again at each look what could not be used. Returns what is to be told.
  std::optional<Word> look(bool at_once = false);

 private:
  explicit SecretFiles(Options options) : options_(std::move(options)) {}
  std::string identify(bool& has_pipe) const;
  std::string digest() const;
  std::optional<Word> tell_failure(const Error& error, bool at_once);
  std::optional<Word> tell_expiry();

  const Options options_;
  bool is_watched_ = true;  // none of them is a pipe
  std::string seen_;        // at the last look: which files they were
  std::string read_;        // which files could be used last
  std::string digest_;
  bool failed_ = false;
  std::string told_;  // of which files, and what
  uint64_t tell_again_ns_ = 0;
  int64_t told_expiry_s_ = 0;
};

}  // namespace farpage
