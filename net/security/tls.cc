#include "net/security/tls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "net/secrets/file_rights.h"
#include "net/security/freed.h"
#include "net/security/tls_advice.h"
#include "net/security/tls_files.h"

namespace farpage {
namespace {

constexpr size_t kRecordBytes = 16 * 1024;
constexpr size_t kReadBufferBytes = 128 * 1024;

using SslContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Freed<SSL, SSL_free>>;

// The stream below OpenSSL's BIO.
struct Wire {
  int fd;
  bool takes_all = false;  // what the socket does not take is kept, and goes before all else
  std::string kept = {};
};

ssize_t send_to(const Wire& wire, const char* data, size_t bytes) {
  return ::send(wire.fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t send_kept(Wire& wire) {
  while (!wire.kept.empty()) {
    const ssize_t sent = send_to(wire, wire.kept.data(), wire.kept.size());
    if (sent < 0) return sent;
    wire.kept.erase(0, static_cast<size_t>(sent));
  }
  return 0;
}

// Of memory whose owner may change it meanwhile: a torn page is refused by its reader, but the
// accesses must be ones that may race.
void copy_changing(std::byte* to, const std::byte* from, size_t bytes) {
  const auto load = [&]<typename Word>(Word) {
    const Word word = std::atomic_ref<const Word>(*reinterpret_cast<const Word*>(from))
                          .load(std::memory_order_relaxed);
    std::memcpy(to, &word, sizeof word);
    to += sizeof word;
    from += sizeof word;
    bytes -= sizeof word;
  };
  while (bytes > 0 && reinterpret_cast<uintptr_t>(from) % sizeof(uint64_t) != 0) load(uint8_t{});
  while (bytes >= sizeof(uint64_t)) load(uint64_t{});
  while (bytes > 0) load(uint8_t{});
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a peer that has gone would be a signal.
int bio_write(BIO* bio, const char* data, int bytes) {
  Wire& wire = *static_cast<Wire*>(BIO_get_data(bio));
  ssize_t sent = send_kept(wire);
  if (sent == 0) sent = send_to(wire, data, static_cast<size_t>(bytes));
  BIO_clear_retry_flags(bio);
  const bool would_block = sent < 0 && (errno == EAGAIN || errno == EINTR);
  if (wire.takes_all && (would_block || sent >= 0)) {
    const size_t taken = would_block ? 0 : static_cast<size_t>(sent);
    wire.kept.append(data + taken, static_cast<size_t>(bytes) - taken);
    return bytes;
  }
  if (would_block) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* data, int bytes) {
  const ssize_t got = ::recv(static_cast<const Wire*>(BIO_get_data(bio))->fd, data,
                             static_cast<size_t>(bytes), MSG_DONTWAIT);
  BIO_clear_retry_flags(bio);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO* make_bio(Wire& wire) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "farpage socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  BIO* bio = BIO_new(method);
  BIO_set_data(bio, &wire);
  BIO_set_init(bio, 1);
  return bio;
}

int reason_of_tls(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
}

// SSL_get_error() looks at what this thread's calls have left behind.
void prepare() {
  ERR_clear_error();
  errno = 0;
}

SslContext make_context(const SSL_METHOD* method) {
  SslContext context(SSL_CTX_new(method));
  FARPAGE_CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

}  // namespace

struct TlsContext::Handle {
  Handle(SslContext made, uint64_t records) : context(std::move(made)), records_per_key(records) {}
  SslContext context;
  const uint64_t records_per_key;
};

struct TlsStream::Session {
  Session(Ssl made, int fd, uint64_t records)
      : wire{fd}, ssl(std::move(made)), records_per_key(records) {
    BIO* bio = make_bio(wire);
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_accept_state(ssl.get());
  }

  Wire wire;
  Ssl ssl;  // after what it stands on
  const uint64_t records_per_key;
  uint64_t records = 0;  // begun with the present key
  bool in_record = false;
};

TlsContext::TlsContext(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
TlsContext::~TlsContext() = default;

int64_t TlsContext::expires_s() const {
  const X509* certificate = SSL_CTX_get0_certificate(handle_->context.get());
  tm ends = {};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &ends) != 1) {
    return 0;
  }
  return ::timegm(&ends);
}

Result<std::shared_ptr<TlsContext>> TlsContext::for_node(const TlsFiles& files,
                                                         uint64_t records_per_key) {
  SslContext context = make_context(TLS_server_method());
  if (auto loaded = load_identity(context.get(), files); !loaded) {
    return tl::unexpected(loaded.error());
  }
  if (!files.ca.empty()) {
    if (auto loaded = load_ca(context.get(), files.ca); !loaded) {
      return tl::unexpected(loaded.error());
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return std::make_shared<TlsContext>(
      std::make_unique<Handle>(std::move(context), records_per_key));
}

Result<std::shared_ptr<TlsContext>> TlsContext::for_client(const TlsFiles& files,
                                                           uint64_t records_per_key) {
  SslContext context = make_context(TLS_client_method());
  if (!files.certificate.empty()) {
    if (auto loaded = load_identity(context.get(), files); !loaded) {
      return tl::unexpected(loaded.error());
    }
  }
  if (!files.ca.empty()) {
    if (auto loaded = load_ca(context.get(), files.ca); !loaded) {
      return tl::unexpected(loaded.error());
    }
  } else {
    SSL_CTX_set_default_verify_paths(context.get());
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return std::make_shared<TlsContext>(
      std::make_unique<Handle>(std::move(context), records_per_key));
}

TlsStream::TlsStream(UniqueFd fd, std::unique_ptr<Session> session)
    : Stream(std::move(fd)), session_(std::move(session)) {}

// So that the peer can tell an end from a broken connection.
TlsStream::~TlsStream() {
  if (failure_.empty()) SSL_shutdown(session_->ssl.get());
  ERR_clear_error();
}

Result<std::unique_ptr<TlsStream>> TlsStream::accept(TlsContext& context, UniqueFd fd) {
  Ssl ssl(SSL_new(context.handle().context.get()));
  if (ssl == nullptr) {
    return fail(Code::kSystem, "cannot begin a TLS connection: " + last_openssl_error());
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  auto session =
      std::make_unique<Session>(std::move(ssl), fd.get(), context.handle().records_per_key);
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(fd), std::move(session)));
}

Result<std::unique_ptr<TlsStream>> TlsStream::connect(TlsContext& context, UniqueFd fd,
                                                      const std::string& host) {
  auto stream = accept(context, std::move(fd));
  if (!stream) return stream;
  SSL* ssl = (*stream)->session_->ssl.get();
  SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* expected = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) != 1) {
    ERR_clear_error();
    if (SSL_set1_host(ssl, host.c_str()) != 1 || SSL_set_tlsext_host_name(ssl, host.c_str()) != 1) {
      return fail(Code::kInvalid, fmt::format("'{}' is no name that a certificate can show", host));
    }
  }
  return stream;
}

Transfer TlsStream::ended(int error, const std::string& failure) {
  if (failure_.empty()) failure_ = failure;
  ERR_clear_error();
  return {.state = StreamState::kEnded, .error = error};
}

Transfer TlsStream::result(int returned) {
  if (returned > 0) return {.bytes = static_cast<size_t>(returned)};
  const int system_error = errno;
  switch (SSL_get_error(session_->ssl.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {.state = StreamState::kWouldBlock, .events = POLLIN};
    case SSL_ERROR_WANT_WRITE:
      return {.state = StreamState::kWouldBlock, .events = POLLOUT};
    case SSL_ERROR_ZERO_RETURN:
      return {.state = StreamState::kEnded};
    case SSL_ERROR_SYSCALL:
      if (system_error != 0) return ended(system_error, std::strerror(system_error));
      return ended(ECONNRESET, "the peer closed the connection in the middle of TLS");
    default:
      verified_ = SSL_get_verify_result(session_->ssl.get());
      refused_ = true;
      alert_ = reason_of_tls(ERR_peek_last_error());
      return ended(EPROTO, verified_ != X509_V_OK
                               ? fmt::format("the peer's certificate is refused: {}",
                                             X509_verify_cert_error_string(verified_))
                               : last_openssl_error());
  }
}

std::string TlsStream::advice(std::string_view peer, std::string_view table) const {
  return advise_on_tls(verified_, alert_, peer, table);
}

Transfer TlsStream::handshake() {
  prepare();
  const Transfer step = result(SSL_do_handshake(session_->ssl.get()));
  // From now on: a stranger's handshake is worth no more than OpenSSL's own 17 KiB.
  if (step.state == StreamState::kMoved) {
    SSL_set_default_read_buffer_len(session_->ssl.get(), kReadBufferBytes);
  }
  return step;
}

Transfer TlsStream::read(std::span<const iovec> parts) {
  size_t bytes = 0;
  drained_ = false;
  for (const iovec& part : parts) {
    for (size_t done = 0; done < part.iov_len;) {
      prepare();
      const size_t most = std::min<size_t>(part.iov_len - done, INT32_MAX);
      const Transfer moved =
          result(SSL_read(session_->ssl.get(), static_cast<std::byte*>(part.iov_base) + done,
                          static_cast<int>(most)));
      if (moved.state != StreamState::kMoved) {
        drained_ = moved.state == StreamState::kWouldBlock;
        // Bytes that have come count first; the next call meets the end again.
        return bytes > 0 ? Transfer{.bytes = bytes} : moved;
      }
      done += moved.bytes;
      bytes += moved.bytes;
    }
  }
  return {.bytes = bytes};
}

// One that has begun keeps its key.
Transfer TlsStream::write_record(std::span<const std::byte> bytes) {
  Session& session = *session_;
  const bool is_asked = SSL_get_key_update_type(session.ssl.get()) != SSL_KEY_UPDATE_NONE;
  if (!session.in_record && (is_asked || session.records >= session.records_per_key)) {
    const Transfer renewed = renew_key();
    if (renewed.state != StreamState::kMoved) return renewed;
  }
  prepare();
  const Transfer moved =
      result(SSL_write(session.ssl.get(), bytes.data(), static_cast<int>(bytes.size())));
  if (moved.state == StreamState::kWouldBlock && moved.events == POLLIN) {
    return ended(EPROTO, "the peer has begun a message of TLS's own and not ended it");
  }
  ++session.records;  // one too many now and then: what is offered again begins none
  session.in_record = moved.state == StreamState::kWouldBlock;
  return moved;
}

// The message never waits for the socket: if it did, the next read() would wait with it, and two
// peers who renew their keys at once for each other.
Transfer TlsStream::renew_key() {
  Session& session = *session_;
  prepare();
  session.wire.takes_all = true;
  int done = SSL_key_update(session.ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  if (done == 1) done = SSL_do_handshake(session.ssl.get());
  session.wire.takes_all = false;
  session.records = 0;
  return result(done);
}

// A record for every 16 KiB, whatever the parts: a frame and the payload behind it go out together.
Transfer TlsStream::write(std::span<const iovec> parts) {
  std::array<std::byte, kRecordBytes> record;
  size_t bytes = 0;
  size_t at = 0;  // in parts.front()
  while (!parts.empty()) {
    size_t length = 0;
    auto next = parts;
    size_t next_at = at;
    while (!next.empty() && length < record.size()) {
      const size_t take = std::min(next.front().iov_len - next_at, record.size() - length);
      copy_changing(record.data() + length,
                    static_cast<const std::byte*>(next.front().iov_base) + next_at, take);
      length += take;
      next_at += take;
      if (next_at < next.front().iov_len) break;
      next = next.subspan(1);
      next_at = 0;
    }
    if (length == 0) break;
    const Transfer moved = write_record({record.data(), length});
    if (moved.state != StreamState::kMoved) return bytes > 0 ? Transfer{.bytes = bytes} : moved;
    bytes += moved.bytes;
    if (moved.bytes < length) break;
    parts = next;
    at = next_at;
  }
  return {.bytes = bytes};
}

bool TlsStream::has_buffered() const {
  // OpenSSL counts half a record too, of which nothing can be read yet.
  return !drained_ && SSL_has_pending(session_->ssl.get()) == 1;
}

}  // namespace farpage
