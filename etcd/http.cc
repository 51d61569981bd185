#include "etcd/http.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/units.h"
#include "net/dial.h"

namespace farpage::etcd {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

constexpr size_t kMaxReplyBytes = 16 * kMiB;
constexpr size_t kMaxLineBytes = 4 * kMiB;

// The stream that Beast reads from and writes to: one of ours, with a deadline.
class TimedStream {
 public:
  explicit TimedStream(Stream& stream) : stream_(stream) {}

  void set_deadline(uint64_t deadline_ns) { deadline_ns_ = deadline_ns; }

  template <typename Buffers>
  size_t read_some(const Buffers& buffers, error_code& error) {
    return move(POLLIN, buffers, error,
                [this](std::span<const iovec> parts) { return stream_.read(parts); });
  }
  template <typename Buffers>
  size_t write_some(const Buffers& buffers, error_code& error) {
    return move(POLLOUT, buffers, error,
                [this](std::span<const iovec> parts) { return stream_.write(parts); });
  }
  template <typename Buffers>
  size_t read_some(const Buffers& buffers) {
    return or_throw([&](error_code& error) { return read_some(buffers, error); });
  }
  template <typename Buffers>
  size_t write_some(const Buffers& buffers) {
    return or_throw([&](error_code& error) { return write_some(buffers, error); });
  }

 private:
  template <typename Move>
  static size_t or_throw(const Move& move) {
    error_code error;
    const size_t bytes = move(error);
    if (error) throw boost::system::system_error(error);
    return bytes;
  }

  // The first buffer alone: "some" is enough.
  template <typename Buffers, typename Step>
  size_t move(short events, const Buffers& buffers, error_code& error, const Step& step) {
    iovec part = {};
    for (auto buffer = boost::asio::buffer_sequence_begin(buffers);
         buffer != boost::asio::buffer_sequence_end(buffers) && part.iov_len == 0; ++buffer) {
      const auto piece = *buffer;
      part = {const_cast<void*>(static_cast<const void*>(piece.data())), piece.size()};
    }
    if (part.iov_len == 0) return 0;
    while (true) {
      const Transfer moved = step(std::span(&part, 1));
      if (moved.state == StreamState::kMoved) return moved.bytes;
      if (moved.state == StreamState::kEnded) {
        error = moved.error == 0 ? error_code(boost::asio::error::eof)
                                 : error_code(moved.error, boost::system::system_category());
        return 0;
      }
      const short wanted = moved.events == 0 ? events : moved.events;
      if (!wait_for(stream_.fd(), wanted, deadline_ns_)) {
        error = boost::asio::error::timed_out;
        return 0;
      }
    }
  }

  Stream& stream_;
  uint64_t deadline_ns_ = 0;
};

http::request<http::string_body> make_request(const HttpRequest& request, const std::string& host) {
  http::request<http::string_body> made{http::verb::post, request.path, 11};
  made.set(http::field::host, host);
  made.set(http::field::content_type, "application/json");
  if (!request.authorization.empty()) made.set(http::field::authorization, request.authorization);
  made.body() = request.body;
  made.prepare_payload();
  return made;
}

}  // namespace

struct HttpConnection::Wire {
  Wire(std::unique_ptr<Stream> connected, const Address& endpoint)
      : stream(std::move(connected)), timed(*stream), host(format_host_port(endpoint)) {}

  tl::unexpected<Error> failed(const error_code& error, const char* doing) const {
    const Code code = error == boost::asio::error::timed_out ? Code::kTimeout : Code::kUnavailable;
    // It tells its verdict on this side's certificate only now.
    const auto* under_tls = dynamic_cast<const TlsStream*>(stream.get());
    if (under_tls != nullptr && under_tls->refused()) {
      return fail(Code::kUnavailable,
                  fmt::format("the etcd at {} has ended TLS: {}; {}", host, under_tls->failure(),
                              under_tls->advice("etcd", "etcd")));
    }
    return fail(code, fmt::format("the etcd at {}: {} ({})", host, doing, error.message()));
  }

  // It would be taken for the next reply.
  bool has_unasked() {
    char unasked = 0;
    iovec part = {&unasked, 1};
    return incoming.size() > 0 || stream->read({&part, 1}).state != StreamState::kWouldBlock;
  }

  Result<void> send(const HttpRequest& request, uint64_t deadline_ns) {
    if (has_unasked()) {
      return fail(
          Code::kUnavailable,
          fmt::format("the etcd at {} has closed the connection, or sent an unexpected answer",
                      host));
    }
    timed.set_deadline(deadline_ns);
    error_code error;
    http::write(timed, make_request(request, host), error);
    if (error) return failed(error, "a request could not be sent");
    return {};
  }

  std::unique_ptr<Stream> stream;
  TimedStream timed;
  const std::string host;
  beast::flat_buffer incoming{kMaxReplyBytes};
  std::optional<http::response_parser<http::buffer_body>> lines;
  std::string text;  // of the lines, that has not been read yet
};

HttpConnection::HttpConnection(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
HttpConnection::~HttpConnection() = default;

Result<std::unique_ptr<HttpConnection>> HttpConnection::open(const Address& endpoint,
                                                             const std::shared_ptr<TlsContext>& tls,
                                                             uint64_t deadline_ns) {
  constexpr PeerWords kEtcd = {"etcd",
                               "check etcd.endpoints, and whether it runs: 'etcdctl endpoint "
                               "health' tells",
                               "etcd"};
  auto stream = connect_stream(endpoint, tls, kEtcd, deadline_ns);
  if (!stream) return tl::unexpected(stream.error());
  return std::unique_ptr<HttpConnection>(
      new HttpConnection(std::make_unique<Wire>(std::move(*stream), endpoint)));
}

Result<HttpReply> HttpConnection::post(const HttpRequest& request, uint64_t deadline_ns) {
  if (auto sent = wire_->send(request, deadline_ns); !sent) return tl::unexpected(sent.error());
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxReplyBytes);
  error_code error;
  http::read(wire_->timed, wire_->incoming, parser, error);
  if (error) return wire_->failed(error, "no whole reply");
  // One that will be closed, or was said too much on, would fail the next request.
  if (!parser.keep_alive() || wire_->incoming.size() > 0) interrupt();
  return HttpReply{parser.get().result_int(), std::move(parser.get().body())};
}

Result<void> HttpConnection::begin_lines(const HttpRequest& request, uint64_t deadline_ns) {
  if (auto sent = wire_->send(request, deadline_ns); !sent) return sent;
  wire_->lines.emplace();
  wire_->lines->body_limit(boost::none);
  error_code error;
  http::read_header(wire_->timed, wire_->incoming, *wire_->lines, error);
  if (error) return wire_->failed(error, "no reply");
  if (wire_->lines->get().result() == http::status::ok) return {};
  return fail(Code::kUnavailable, fmt::format("the etcd at {} answers a watch with HTTP status {}",
                                              wire_->host, wire_->lines->get().result_int()));
}

Result<std::string> HttpConnection::next_line(uint64_t deadline_ns) {
  wire_->timed.set_deadline(deadline_ns);
  while (true) {
    if (const size_t end = wire_->text.find('\n'); end != std::string::npos) {
      std::string line = wire_->text.substr(0, end);
      wire_->text.erase(0, end + 1);
      return line;
    }
    if (wire_->text.size() > kMaxLineBytes) {
      return fail(Code::kProtocol, fmt::format("the etcd at {} sends no newline", wire_->host));
    }
    char bytes[4096];
    auto& body = wire_->lines->get().body();
    body.data = bytes;
    body.size = sizeof bytes;
    body.more = true;
    error_code error;
    if (wire_->lines->is_done()) error = boost::asio::error::eof;
    if (!error) http::read_some(wire_->timed, wire_->incoming, *wire_->lines, error);
    if (error == http::error::need_buffer) error = {};
    wire_->text.append(bytes, sizeof bytes - body.size);
    if (error) return wire_->failed(error, "the reply has ended");
  }
}

void HttpConnection::interrupt() {
  ::shutdown(wire_->stream->fd(), SHUT_RDWR);
}

}  // namespace farpage::etcd
