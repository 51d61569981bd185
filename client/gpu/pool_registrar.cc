#include "client/gpu/pool_registrar.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"

namespace farpage {

PoolRegistrar::PoolRegistrar(std::shared_ptr<const cuda::GpuContext> context)
    : context_(std::move(context)), thread_([this] { work(); }) {}

PoolRegistrar::~PoolRegistrar() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ordered_.notify_one();
  thread_.join();
}

std::shared_ptr<CopySource> PoolRegistrar::add(std::shared_ptr<const Mapping> pool) {
  std::shared_ptr<Pool> made(new Pool(std::move(pool)), [this](Pool* gone) {
    order({gone, true});
  });
  order({made.get(), false});
  return made;
}

void PoolRegistrar::order(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  ordered_.notify_one();
}

// In the order in which they came, so that a pool's end comes behind its beginning.
void PoolRegistrar::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ordered_.wait(lock, [this] { return !jobs_.empty() || is_ending_; });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    if (job.is_end) {
      delete job.pool;
    } else {
      begin(*job.pool);
    }
    lock.lock();
  }
}

void PoolRegistrar::begin(Pool& pool) {
  auto registered = cuda::RegisteredMemory::make(context_, pool.memory);
  if (registered) {
    pool.registered.emplace(std::move(*registered));
    pool.is_ready.store(true);
    log_info(fmt::format("cuda:{} reads {} of a node's memory: pages go straight from there",
                         context_->device(), format_bytes(pool.memory->bytes())));
  } else {
    warnings_.warn("pages of a node on this host go to the GPU through pinned memory: " +
                   registered.error().message);
  }
}

}  // namespace farpage
