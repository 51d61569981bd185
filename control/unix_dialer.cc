#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "control/stream_link.h"
#include "control/unix_socket.h"
#include "control/unix_stream.h"
#include "net/address/unix_path.h"
#include "net/socket_rights.h"

namespace farpage {
namespace {

class UnixDialer final : public ControlDialer {
 public:
  UnixDialer(AsioRuntime& runtime, std::string path) : runtime_(runtime), path_(std::move(path)) {}

  void dial(DialCallback done) override {
    runtime_.after(0, [&runtime = runtime_, path = path_, done = std::move(done)] {
      int error = 0;
      UniqueFd fd = connect_unix(path, error);
      if (error == EACCES || error == EPERM) {
        return done(fail(Code::kDenied,
                         fmt::format("this user may not connect to the memory node at {} ({}): {}",
                                     path, std::strerror(error), advise_on_denied_socket(path))));
      }
      if (error == EMFILE || error == ENFILE) {
        return done(fail_errno(error, "cannot connect to the memory node at " + path));
      }
      if (error != 0) {
        return done(fail(Code::kUnavailable,
                         fmt::format("no memory node answers at {} ({}): start one with 'farpage "
                                     "node --listen {}'",
                                     path, std::strerror(error), path)));
      }
      done(make_stream_link(runtime, std::make_unique<UnixStream>(std::move(fd)), {}));
    });
  }

 private:
  AsioRuntime& runtime_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<ControlDialer>> make_unix_dialer(AsioRuntime& runtime,
                                                        const std::string& path) {
  if (auto valid = check_unix_path(path); !valid) return tl::unexpected(valid.error());
  return std::make_unique<UnixDialer>(runtime, path);
}

}  // namespace farpage
