#include "transport/ucx/paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "transport/ucx/initiator.h"

namespace farpage::ucx {
namespace {

std::string printed_info(ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* memory = ::open_memstream(&text, &bytes);
  if (memory == nullptr) return {};
  ucp_ep_print_info(endpoint, memory);
  std::fclose(memory);
  std::string copy(text, bytes);
  std::free(text);
  return copy;
}

// "posix/memory.0": the last part is the number of the device's path.
std::string without_path_number(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

}  // namespace

UcxLanes::UcxLanes(ucp_ep_h endpoint) : UcxLanes(printed_info(endpoint)) {}

UcxLanes::UcxLanes(const std::string& printed) {
  std::istringstream text(printed);
  for (std::string line; std::getline(text, line);) {
    UcxLane lane;
    std::array<char, 128> name = {};
    unsigned index = 0;
    if (std::sscanf(line.c_str(), "# lane[%u]: %*d:%127s md[%*u] -> md[%u]", &lane.index,
                    name.data(), &lane.peer_domain) == 3 &&
        lane.peer_domain < 64) {
      lane.name = without_path_number(name.data());
      lane.carries_messages = (line + ' ').find(" am ") != std::string::npos;
      lanes_.push_back(lane);
    } else if (std::sscanf(line.c_str(), "# get[%u]:", &index) == 1) {
      for (UcxLane& known : lanes_) known.reads_itself |= known.index == index;
    }
  }
}

const UcxLane* UcxLanes::reader(uint64_t domains) const {
  const auto found = std::ranges::find_if(lanes_, [domains](const UcxLane& lane) {
    return lane.reads_itself && (domains >> lane.peer_domain & 1) != 0;
  });
  return found == lanes_.end() ? nullptr : &*found;
}

std::string UcxLanes::emulated_name() const {
  const auto found = std::ranges::find_if(lanes_, &UcxLane::carries_messages);
  return found == lanes_.end() ? "an unknown path" : found->name;
}

PathBook::PathBook(bool allow_emulated) : allow_emulated_(allow_emulated) {
  publish("UCX, not connected yet", !allow_emulated);
}

void PathBook::note(const std::string& path, bool one_sided) {
  std::lock_guard lock(mutex_);
  one_sided_ = one_sided_ && one_sided;
  const bool is_new = seen_.insert(one_sided ? path : path + ", emulated by the peer's CPU").second;
  if (is_new) publish(fmt::format("UCX over {}", fmt::join(seen_, " and ")), one_sided_);
}

void PathBook::publish(const std::string& path, bool one_sided) {
  Page& page = pages_.emplace_back();
  page.path = path;
  page.capabilities = {
      .backend = "ucx",
      .path = page.path,
      .one_sided = one_sided,
      .protects_regions = false,
      .checksums_landing = false,
      .max_in_flight = kMaxInFlight,
  };
  current_.store(&page.capabilities, std::memory_order_release);
}

}  // namespace farpage::ucx
