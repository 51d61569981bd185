#include "tests/transport/verbs/softroce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace farpage::contract {
namespace {

// The two ends of the cable.
const std::array<std::string, 2> kEnds = {"v0", "w0"};

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return "";
  }
  std::string output;
  std::array<char, 256> some;
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return output;
}

// The number behind a word.
uint64_t number_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no '" << word << "' in: " << text;
    return 0;
  }
  uint64_t number = 0;
  std::istringstream(text.substr(at + word.size())) >> number;
  return number;
}

uint64_t sum_of(const std::string& word) {
  uint64_t sum = 0;
  for (const std::string& end : kEnds) {
    sum += number_after(output_of("tc -s qdisc show dev " + end), word);
  }
  return sum;
}

}  // namespace

uint64_t device_counter(const std::string& device, const std::string& name) {
  const std::string folder = "/sys/class/infiniband/" + device + "/ports/1/hw_counters/";
  std::ofstream(folder + "lifespan") << 0;  // else the kernel shows what it was 10 ms ago
  uint64_t count = 0;
  std::ifstream file(folder + name);
  EXPECT_TRUE(file >> count) << device << " has no counter " << name;
  return count;
}

uint64_t queue_pairs(const std::string& device) {
  return number_after(output_of("rdma resource show " + device), " qp ");
}

NetworkFault::NetworkFault(const std::string& netem) {
  for (const std::string& end : kEnds) {
    output_of(fmt::format("tc qdisc add dev {} root netem limit 100000 {}", end, netem));
  }
}

NetworkFault::~NetworkFault() {
  for (const std::string& end : kEnds) output_of("tc qdisc del dev " + end + " root");
}

uint64_t NetworkFault::sent() const {
  return sum_of(" bytes ");
}

uint64_t NetworkFault::dropped() const {
  return sum_of("(dropped ");
}

uint64_t NetworkFault::queued() const {
  return sum_of("b ");
}

}  // namespace farpage::contract
