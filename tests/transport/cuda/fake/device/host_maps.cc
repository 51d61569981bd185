#include "tests/transport/cuda/fake/device/host_maps.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace farpage::cuda {

bool is_mapped(const void* memory, size_t bytes, bool to_write) {
  uint64_t at = reinterpret_cast<uint64_t>(memory);
  const uint64_t end = at + bytes;
  std::ifstream maps("/proc/self/maps");  // begin-end rights …, in order
  for (std::string line; at < end && std::getline(maps, line);) {
    size_t read = 0;
    const uint64_t begin = std::stoull(line, &read, 16);
    size_t read_more = 0;
    const uint64_t stop = std::stoull(line.substr(read + 1), &read_more, 16);
    const std::string rights = line.substr(read + 1 + read_more + 1, 2);
    if (at < begin || at >= stop) continue;
    if (rights[0] != 'r' || (to_write && rights[1] != 'w')) return false;
    at = stop;
  }
  return at >= end;
}

}  // namespace farpage::cuda
