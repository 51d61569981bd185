// Writes the seeds of greeting_fuzz into a folder: greeting_seeds FOLDER
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "net/security/greeting_wire.h"

namespace farpage {
namespace {

template <typename Message>
std::string text_of(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof message);
}

std::string opening(uint32_t kind, uint32_t version = kGreetingVersion) {
  return text_of(greeting::Opening{greeting::kMagic, version, kind, 0, {}});
}
std::string challenge(uint32_t code, const std::string& message, uint32_t asks_token) {
  const auto bytes = static_cast<uint32_t>(message.size());
  return text_of(greeting::Challenge{
             greeting::kMagic, kGreetingVersion, code, bytes, asks_token, 0, {}}) +
         message;
}
std::string answer(uint32_t code, const std::string& message) {
  return text_of(greeting::Answer{code, static_cast<uint32_t>(message.size()), {}}) + message;
}

bool write(const std::string& folder, const char* name, char target, const std::string& bytes) {
  std::ofstream file(folder + "/" + name, std::ios::binary);
  file << target << bytes;
  return file.good();
}

bool write_seeds(const std::string& folder) {
  const std::string proof = text_of(greeting::ClientProof{});
  return write(folder, "node_control", 0, opening(1) + proof) &&
         write(folder, "node_data_and_frames", 0, opening(2) + proof + "frames") &&
         write(folder, "node_unknown_kind", 0, opening(3) + proof) &&
         write(folder, "node_other_version", 0, opening(1, 2) + proof) &&
         write(folder, "node_half_opening", 0, opening(1).substr(0, 20)) &&
         write(folder, "node_http", 0, "GET / HTTP/1.1\r\nHost: node\r\nAccept: */*\r\n\r\n1234") &&
         write(folder, "node_token", 1, opening(1) + proof) &&
         write(folder, "client_accepted", 2, challenge(0, "", 0) + answer(0, "")) &&
         write(folder, "client_refused_at_once", 2, challenge(7, "no", 0)) &&
         write(folder, "client_refused", 2, challenge(0, "", 0) + answer(7, "\x1b[31mno")) &&
         write(folder, "client_asked_for_a_token", 2, challenge(0, "", 1)) &&
         write(folder, "client_half_challenge", 2, challenge(0, "", 0).substr(0, 30)) &&
         write(folder, "client_token", 3, challenge(0, "", 1) + answer(0, "")) &&
         write(folder, "address_name", 4, "tcp://node7.example.com:7010") &&
         write(folder, "address_ipv6", 4, "tcp://[fe80::1%eth0]:65535") &&
         write(folder, "address_path", 4, "/run/farpage/node.sock");
}

}  // namespace
}  // namespace farpage

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: greeting_seeds FOLDER\n");
    return 2;
  }
  return farpage::write_seeds(arguments[1]) ? 0 : 1;
}
