#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "net/address/address.h"

namespace farpage::etcd {

// An HTTP server on the loopback that answers as a test says, well or badly.
class ScriptedEtcd {
 public:
  struct Request {
    std::string path;
    std::string authorization;
    std::string body;
  };
  // The raw bytes to answer with; empty: nothing is ever said. Afterwards the connection stays.
  using Script = std::function<std::string(const Request&)>;

  explicit ScriptedEtcd(Script script) : script_(std::move(script)) {
    listening_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* where = reinterpret_cast<sockaddr*>(&address);
    FARPAGE_CHECK(::bind(listening_.get(), where, bytes) == 0);
    FARPAGE_CHECK(::listen(listening_.get(), 64) == 0);
    FARPAGE_CHECK(::getsockname(listening_.get(), where, &bytes) == 0);
    endpoint_ = {"", "127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this] { serve(); });
  }

  ~ScriptedEtcd() {
    stopped_ = true;
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }

  const Address& endpoint() const { return endpoint_; }
  int connections() const { return connections_; }

  static std::string ok(const std::string& body) { return reply("200 OK", body); }
  static std::string reply(const std::string& status, const std::string& body) {
    return "HTTP/1.1 " + status +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  // A reply that goes on, of these pieces.
  static std::string lines(const std::vector<std::string>& pieces) {
    std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const std::string& piece : pieces) {
      char size[32];
      std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
      text += size + piece + "\r\n";
    }
    return text;
  }

 private:
  struct Client {
    UniqueFd fd;
    std::string text;
  };

  void serve() {
    std::vector<Client> clients;
    while (!stopped_) {
      std::vector<pollfd> waiting = {{listening_.get(), POLLIN, 0}};
      for (const Client& client : clients) waiting.push_back({client.fd.get(), POLLIN, 0});
      ::poll(waiting.data(), waiting.size(), -1);
      for (size_t i = clients.size(); i > 0; --i) {
        if (waiting[i].revents != 0 && !hear(clients[i - 1])) {
          clients.erase(clients.begin() + static_cast<ptrdiff_t>(i - 1));
        }
      }
      if (waiting[0].revents == 0 || stopped_) continue;
      clients.push_back(
          {UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)), ""});
      ++connections_;
    }
  }

  bool hear(Client& client) {
    char bytes[4096];
    const ssize_t got = ::recv(client.fd.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    client.text.append(bytes, static_cast<size_t>(got));
    const size_t head = client.text.find("\r\n\r\n");
    if (head == std::string::npos) return true;
    const std::string length = header(client.text.substr(0, head), "Content-Length: ");
    const size_t whole = head + 4 + std::stoul(length.empty() ? "0" : length);
    if (client.text.size() < whole) return true;
    const size_t space = client.text.find(' ');
    const Request request = {
        client.text.substr(space + 1, client.text.find(' ', space + 1) - space - 1),
        header(client.text.substr(0, head), "Authorization: "),
        client.text.substr(head + 4, whole - head - 4)};
    client.text.erase(0, whole);
    const std::string answer = script_(request);
    ::send(client.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    return answer.find("Connection: close") == std::string::npos;
  }

  static std::string header(const std::string& head, const std::string& name) {
    const size_t begin = head.find(name);
    if (begin == std::string::npos) return "";
    return head.substr(begin + name.size(), head.find("\r\n", begin) - begin - name.size());
  }

  const Script script_;
  UniqueFd listening_;
  Address endpoint_;
  std::atomic<int> connections_{0};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace farpage::etcd
