// A client that puts one page again and again until it is killed: putter SOCKET READY_FD

#include <unistd.h>

#include <cstdlib>

#include "base/check.h"
#include "control/unix_socket.h"
#include "tests/support/engine.h"
#include "transport/shm/shm_fabric.h"

int main(int argc, char** argv) {
  using namespace farpage;
  FARPAGE_CHECK(argc == 3);
  AsioRuntime runtime;
  const auto fabric = shm::make_shm_fabric();
  const auto dialer = make_unix_dialer(runtime, argv[1]).value();
  const auto client = Client::connect({}, runtime, *fabric, *dialer).value();
  Engine engine(*client, 4096, 1);
  for (uint64_t number = 1;; ++number) {
    FARPAGE_CHECK(engine.put(test_key(100), number).code == Code::kOk);
    if (number == 1) FARPAGE_CHECK(::write(std::atoi(argv[2]), "x", 1) == 1);
  }
}
