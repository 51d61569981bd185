#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

enum class StreamState : uint8_t {
  kMoved,       // at least one byte
  kWouldBlock,  // wait for `events` on the descriptor, then try again
  kEnded,       // the peer has closed, or the connection has broken
};

struct Transfer {
  StreamState state = StreamState::kMoved;
  short events = 0;  // POLLIN or POLLOUT
  size_t bytes = 0;
  int error = 0;  // kEnded: errno; 0 if the peer has closed in good order
};

// Of a system call's result, with what errno says. `events`: what to wait for if it would block.
Transfer transfer_of(ssize_t moved, short events);

// A connection's bytes, in order, never blocking. One thread at a time. Bytes that write() has not
// moved must be offered again, with more behind them or not: TLS has begun to send them.
class Stream {
 public:
  explicit Stream(UniqueFd fd) : fd_(std::move(fd)) {}
  virtual ~Stream() = default;

  virtual Transfer read(std::span<const iovec> parts) = 0;
  virtual Transfer write(std::span<const iovec> parts) = 0;

  // Bytes that have come from the descriptor already and that read() will give: no caller may wait
  // for it to be readable.
  virtual bool has_buffered() const { return false; }

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// A socket, which it makes non-blocking.
class PlainStream final : public Stream {
 public:
  explicit PlainStream(UniqueFd fd);
  Transfer read(std::span<const iovec> parts) override;
  Transfer write(std::span<const iovec> parts) override;

  // As write(), of a file in memory, without a copy: the socket refers to the file's pages, and the
  // peer gets what is in them as they leave this host. Where the connection has broken, the thread
  // gets SIGPIPE, which it must ignore or block.
  Transfer write_file(int file, uint64_t offset, uint64_t bytes);
};

// Reads or writes all of it, by the deadline (of boottime_clock). Blocks; for set-up alone.
Result<void> read_all(Stream& stream, std::span<std::byte> bytes, uint64_t deadline_ns);
Result<void> write_all(Stream& stream, std::span<const std::byte> bytes, uint64_t deadline_ns);

// Until one of `events` is there (true), or the deadline.
bool wait_for(int fd, short events, uint64_t deadline_ns);
bool wait_for_any(std::span<pollfd> waiting, uint64_t deadline_ns);

}  // namespace farpage
