#pragma once

#include <farpage/farpage.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string_view>

#include "base/status.h"
#include "client/c/owner.h"
#include "integrity/recovery.h"

namespace farpage::c_api {

farpage_code_t to_c(Code code) noexcept;
farpage_reason_t to_c(Reason reason) noexcept;

// Keep the sentence for farpage_last_error(), and return the code.
farpage_code_t refuse(farpage_code_t code, std::string_view sentence) noexcept;
farpage_code_t refuse(const Error& error) noexcept;
inline farpage_code_t answer(const Result<void>& result) noexcept {
  return result ? FARPAGE_OK : refuse(result.error());
}
// Something was thrown.
farpage_code_t refuse_thrown(const char* what) noexcept;

// FARPAGE_OK, unless it is null, which the name of the argument tells.
farpage_code_t require(const void* pointer, const char* name) noexcept;
// So many items of an argument: not null where there are some, and no more than one call takes.
inline constexpr size_t kMostItems = size_t{1} << 24;
farpage_code_t require_items(const void* items, const char* name, size_t count) noexcept;
farpage_code_t require_owner(const Owner& owner) noexcept;

template <typename Handle>
farpage_code_t require_handle(const Handle* handle, const char* name) noexcept {
  const farpage_code_t code = require(handle, name);
  return code == FARPAGE_OK ? require_owner(handle->owner) : code;
}

// Runs what may throw, and lets nothing that is thrown out.
template <typename Run>
farpage_code_t guarded(Run&& run) noexcept {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return refuse(FARPAGE_EXHAUSTED, "this process has no memory left");
  } catch (const std::exception& thrown) {
    return refuse_thrown(thrown.what());
  } catch (...) {
    return refuse_thrown("not a std::exception");
  }
}

}  // namespace farpage::c_api
