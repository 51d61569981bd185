#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farpage::doctor {

// /proc, /sys, /dev and what else the host tells in files. `root` is prepended to every path, for
// tests.
class HostFiles {
 public:
  explicit HostFiles(std::string root = "") : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  bool exists(const std::string& path) const;
  // Without white space at its end; nothing if it cannot be read.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<uint64_t> number(const std::string& path) const;
  // The value behind "key:" in a file of such lines, without what surrounds it.
  std::optional<std::string> value(const std::string& path, std::string_view key) const;
  // The names in a folder, sorted; none if it is not there.
  std::vector<std::string> names(const std::string& folder) const;

 private:
  std::string root_;
};

}  // namespace farpage::doctor
