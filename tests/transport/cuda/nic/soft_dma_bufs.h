#pragma once

#include "tests/transport/cuda/fake/fake_control.h"

namespace farpage {

// Soft-RoCE takes no dma-bufs. A program that has this takes those of the fake's: they are memory
// of its own, which it registers in their place.
struct SoftDmaBufs {
  const cuda::FakeControl* fake = nullptr;
  int error = 0;  // an errno, as of an RDMA device that takes none
};
extern SoftDmaBufs soft_dma_bufs;

}  // namespace farpage
