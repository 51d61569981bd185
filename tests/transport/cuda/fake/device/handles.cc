#include "tests/transport/cuda/fake/device/handles.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <map>

#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {
namespace {

// By descriptor; a number that is closed and given again names the last one.
std::map<int, FakeHandle>& handles() {
  static auto* const all = new std::map<int, FakeHandle>;
  return *all;
}

int make_dma_buf(const Physical& physical, uint64_t offset, uint64_t bytes) {
  const int device = ::open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  udmabuf_create create{};
  create.memfd = static_cast<uint32_t>(physical.descriptor());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.offset = offset;
  create.size = bytes;
  const int made = ::ioctl(device, UDMABUF_CREATE, &create);
  ::close(device);
  return made;
}

}  // namespace

int make_handle(const Physical& physical, uint64_t offset, uint64_t bytes) {
  const int dma_buf = make_dma_buf(physical, offset, bytes);
  if (dma_buf >= 0) {
    handles()[dma_buf] = {true, 0, bytes};
    return dma_buf;
  }
  const int memfd = ::fcntl(physical.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (memfd >= 0) handles()[memfd] = {false, offset, bytes};
  return memfd;
}

bool describe_handle(int descriptor, FakeHandle* handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = handles().find(descriptor);
  if (found == handles().end()) return false;
  *handle = found->second;
  return true;
}

}  // namespace farpage::cuda
