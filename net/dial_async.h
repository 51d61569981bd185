#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "net/dial.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {

using DialedCallback = std::function<void(Result<std::unique_ptr<Stream>>)>;

// As dial(), but no thread waits for a host that may be dead: as many may be dialled at one time as
// there are descriptors. Only a name that has to be resolved, TLS and the introduction take one,
// of JobClass::kDial.
//
// From any thread. `done` runs once, later, on the runtime's thread, unless the runtime ends first.
void dial_async(AsioRuntime& runtime, const Address& address, const ClientCredentials& credentials,
                const Introduction& introduction, uint64_t deadline_ns, DialedCallback done);

}  // namespace farpage
