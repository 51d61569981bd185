#include "net/stream/lost_packets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/log.h"

namespace farpage {
namespace {

constexpr uint64_t kSlowestAckMs = 50;  // of one that is delayed
constexpr uint64_t kRoundTrips = 2;
constexpr uint64_t kWarnAgainNs = 10 * kSecond;

std::string peer_of(int socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  std::array<char, NI_MAXHOST> host = {};
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(socket, where, &bytes) != 0 ||
      ::getnameinfo(where, bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "the peer";
  }
  return host.data();
}

}  // namespace

SentBytes sent_bytes(int socket) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  int waiting = 0;
  // A Unix socket knows neither.
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
      ::ioctl(socket, SIOCOUTQ, &waiting) != 0) {
    return {};
  }
  const uint64_t heard_by_ms =
      kSlowestAckMs + kRoundTrips * info.tcpi_rtt / 1000 + info.tcpi_last_ack_recv;
  return {info.tcpi_snd_mss, info.tcpi_bytes_acked, static_cast<uint64_t>(std::max(waiting, 0)),
          info.tcpi_total_retrans, info.tcpi_last_data_sent >= heard_by_ms};
}

bool loses_full_packets(const SentBytes& sent) {
  return sent.packet_bytes > 0 && (sent.packets_sent_again > 0 || sent.heard_later) &&
         sent.waiting_bytes >= sent.packet_bytes && sent.acked_bytes > 0 &&
         sent.acked_bytes < sent.packet_bytes;  // small messages came through
}

std::string lost_full_packets(const SentBytes& sent, const std::string& peer) {
  return fmt::format(
      "packets of {} bytes to {} were never acknowledged, while {} bytes of small "
      "messages were: a link on the way seems to have a smaller MTU and drops them in silence. "
      "Give "
      "the interfaces of both hosts the path's MTU (find it with ping -M do -s BYTES HOST, set it "
      "with ip link set dev NAME mtu BYTES), or let TCP find it: sysctl -w "
      "net.ipv4.tcp_mtu_probing=1",
      sent.packet_bytes, peer, sent.acked_bytes);
}

void warn_of_lost_packets(int socket) {
  const SentBytes sent = sent_bytes(socket);
  if (!loses_full_packets(sent)) return;
  static std::mutex mutex;
  static WarningLimiter warnings(kWarnAgainNs);
  const std::string told = lost_full_packets(sent, peer_of(socket));
  const std::lock_guard lock(mutex);
  warnings.warn(told);
}

}  // namespace farpage
