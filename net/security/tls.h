#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/stream/stream.h"

namespace farpage {

// The certificate that one side shows, and the CAs that it believes. PEM files.
struct TlsFiles {
  std::string certificate;  // with the chain behind it; a client may have none
  std::string key;
  std::string ca;  // who must have signed the peer's; on a node, empty: clients show none
};

// AES-GCM's keys are safe for 2^24.5 of them (RFC 8446, 5.5).
inline constexpr uint64_t kTlsRecordsPerKey = uint64_t{1} << 23;

// Keys and certificates, loaded once; TLS 1.3. Thread-safe.
class TlsContext {
 public:
  // Refuses files that cannot be read, do not belong together, have expired, or are keys that
  // others than their owner may use.
  static Result<std::shared_ptr<TlsContext>> for_node(const TlsFiles& files,
                                                      uint64_t records_per_key = kTlsRecordsPerKey);
  // An empty `ca`: those that this machine believes.
  static Result<std::shared_ptr<TlsContext>> for_client(
      const TlsFiles& files, uint64_t records_per_key = kTlsRecordsPerKey);
  ~TlsContext();

  // When the certificate ends, in seconds since 1970; 0: there is none.
  int64_t expires_s() const;

  struct Handle;
  explicit TlsContext(std::unique_ptr<Handle> handle);
  Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
};

// One TLS connection over a connected socket. After the handshake read() waits for POLLIN alone and
// write() for POLLOUT alone.
class TlsStream final : public Stream {
 public:
  static Result<std::unique_ptr<TlsStream>> accept(TlsContext& context, UniqueFd fd);
  // `host`: whom the peer's certificate must name.
  static Result<std::unique_ptr<TlsStream>> connect(TlsContext& context, UniqueFd fd,
                                                    const std::string& host);
  ~TlsStream() override;

  // Goes on with the handshake: kMoved once it is done, kEnded if it has failed: see failure().
  Transfer handshake();
  // The first failure, for people; "" if nothing has failed.
  const std::string& failure() const { return failure_; }
  // Advice, if it was TLS that failed. `peer`: who it is; `table`: the one of the configuration in
  // which what this side shows and believes is named.
  std::string advice(std::string_view peer = "node", std::string_view table = "security") const;
  // It was TLS that failed (a certificate, say), not the connection under it.
  bool refused() const { return refused_; }

  Transfer read(std::span<const iovec> parts) override;
  Transfer write(std::span<const iovec> parts) override;
  bool has_buffered() const override;

  struct Session;

 private:
  TlsStream(UniqueFd fd, std::unique_ptr<Session> session);
  Transfer result(int returned);
  Transfer write_record(std::span<const std::byte> bytes);
  Transfer renew_key();
  Transfer ended(int error, const std::string& failure);

  std::unique_ptr<Session> session_;
  std::string failure_;
  long verified_ = 0;  // X509_V_…: what was wrong with the peer's certificate, and
  int alert_ = 0;      // SSL_R_…: what the peer has said of this side's
  bool refused_ = false;
  bool drained_ = false;  // read() has given all that can be made of what has come
};

}  // namespace farpage
