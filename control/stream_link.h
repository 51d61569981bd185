#pragma once

#include <memory>

#include "control/link.h"
#include "net/runtime/asio_runtime.h"
#include "net/stream/stream.h"

namespace farpage {

// A client's end over a stream that is connected. On the runtime.
std::shared_ptr<ControlLink> make_stream_link(AsioRuntime& runtime, std::unique_ptr<Stream> stream,
                                              Peer peer);

}  // namespace farpage
