#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace farpage {

// The files of a secret (a token; a certificate with its key and its CA), or of several that are
// read together. They are read again when one has changed: when it is written anew, replaced, or a
// link on its way leads elsewhere. What is told is told of each secret by itself. One thread at a
// time.
class SecretFiles {
 public:
  struct Secret {
    std::string what;  // in messages: "the token in '/etc/token'"
    std::vector<std::string> paths;
    // When what is in use ends, in seconds since 1970; 0: never.
    std::function<int64_t()> expires_s = [] { return int64_t{0}; };
  };
  // One for each secret.
  using Reads = std::vector<bool>;
  using Results = std::vector<Result<void>>;
  struct Options {
    std::vector<Secret> secrets;
    // Takes into use what the files of those that it is to read hold now; an error leaves in use
    // what was.
    std::function<Results(const Reads& reads)> read;
  };
  // Reads all of them for the first time; the first error of all. What is no regular file (a pipe)
  // is read this once.
  static Result<std::unique_ptr<SecretFiles>> open(Options options);

  struct Word {
    std::string text;
    bool is_warning;
  };
  // Blocks on files. Reads what has changed since, once two looks in a row have found the same, for
  // it may be half written; `at_once` at the first, and whether or not it seems to have changed.
  // Tries again at each look what could not be used. Returns what is to be told.
  std::vector<Word> look(bool at_once = false);
  // Whether a look reads any of them: not where all came from pipes.
  bool is_watched() const;

 private:
  struct State {
    bool is_watched = true;  // none of its files is a pipe
    bool is_pipe_now = false;
    std::string identity;  // at the last look: which files they were
    std::string digest;    // of what was taken into use last
    std::string told;      // of which files, and what
    uint64_t tell_again_ns = 0;
    int64_t told_expiry_s = 0;
  };

  explicit SecretFiles(Options options)
      : options_(std::move(options)), states_(options_.secrets.size()) {}
  std::string identify();
  void take(size_t secret, const Result<void>& result, const std::string& digest, bool at_once,
            std::vector<Word>& words);
  Word tell_pipe(size_t secret) const;
  std::optional<Word> tell_failure(size_t secret, const Error& error, bool at_once);
  std::optional<Word> tell_expiry(size_t secret);

  const Options options_;
  std::vector<State> states_;  // of each secret
  std::string seen_;           // at the last look: which files they all were
  std::string read_;           // which files could be used last
  bool failed_ = false;
};

}  // namespace farpage
