#include "tests/transport/cuda/nic/soft_dma_bufs.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>

namespace farpage {

SoftDmaBufs soft_dma_bufs;

}  // namespace farpage

// With the device's addresses, by which work requests name the memory. It stays mapped: the
// registration has no end of its own here.
extern "C" ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t length, uint64_t iova,
                                     int fd, int access) {
  farpage::cuda::FakeHandle handle;
  errno = farpage::soft_dma_bufs.error;
  if (errno != 0) return nullptr;
  errno = EINVAL;
  if (!farpage::soft_dma_bufs.fake->describe_handle(fd, &handle)) return nullptr;
  if (offset + length > handle.bytes) return nullptr;
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                              static_cast<off_t>(handle.offset + offset));
  if (memory == MAP_FAILED) return nullptr;
  return ::ibv_reg_mr_iova2(domain, memory, length, iova, static_cast<unsigned>(access));
}
