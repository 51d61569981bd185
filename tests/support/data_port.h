#pragma once

#include <memory>
#include <utility>

#include "net/listener.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage::tcp {

// A port of the loopback whose data connections go to a fabric, which outlives it.
inline std::unique_ptr<Listener> serve_data(TcpFabric& fabric,
                                            const NodeCredentials& credentials = {}) {
  return Listener::listen(
             {"", "127.0.0.1", 0}, credentials,
             {.control = [](auto, const auto&) {},
              .data = [&fabric](auto stream,
                                const auto& who) { fabric.accept(std::move(stream), who); }})
      .value();
}

}  // namespace farpage::tcp
