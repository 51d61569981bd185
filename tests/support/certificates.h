#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/security/tls.h"

namespace farpage {

// A throw-away certificate authority, and what it signs, as files in a folder.
class TestCa {
 public:
  explicit TestCa(const std::string& folder, const std::string& name = "ca");
  ~TestCa();

  struct Wish {
    std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
    int64_t begins_s = -3600;  // from now
    int64_t ends_s = 3600;
  };

  const std::string& file() const { return file_; }
  // With `ca` empty.
  TlsFiles issue(const std::string& name, const Wish& wish) const;
  TlsFiles issue(const std::string& name) const { return issue(name, Wish()); }

  struct Signer;

 private:
  std::string folder_;
  std::string file_;
  std::unique_ptr<Signer> signer_;
};

}  // namespace farpage
