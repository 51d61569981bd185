#include "client/c/callback.h"

namespace farpage::c_api {
namespace {

thread_local bool is_in_callback = false;

}  // namespace

bool in_callback() noexcept {
  return is_in_callback;
}

void Callback::enter(void* callback) noexcept {
  const auto& entered = *static_cast<const Callback*>(callback);
  is_in_callback = true;
  entered.run(entered.context);
  is_in_callback = false;
}

}  // namespace farpage::c_api
