#include "client/c/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "prefetch/access.h"

namespace farpage::c_api {
namespace {

// An array takes no memory when there is none left, and a thread that ends need not free it.
constexpr size_t kSentenceBytes = 1'024;
thread_local std::array<char, kSentenceBytes> last_sentence = {};

void keep(const char* format, auto... values) noexcept {
  std::array<char, kSentenceBytes> made = {};
  fmt::format_to_n(made.data(), made.size() - 1, fmt::runtime(format), values...);
  last_sentence = made;
}

// Numbers that programs were compiled with: in the header they never change.
template <typename T>
constexpr bool is_same(T ours, int theirs) {
  return static_cast<int>(ours) == theirs;
}
static_assert(is_same(Code::kOk, FARPAGE_OK) && is_same(Code::kInvalid, FARPAGE_INVALID) &&
              is_same(Code::kNotFound, FARPAGE_NOT_FOUND) &&
              is_same(Code::kExists, FARPAGE_EXISTS) && is_same(Code::kTimeout, FARPAGE_TIMEOUT) &&
              is_same(Code::kUnavailable, FARPAGE_UNAVAILABLE) &&
              is_same(Code::kExhausted, FARPAGE_EXHAUSTED) &&
              is_same(Code::kDenied, FARPAGE_DENIED) && is_same(Code::kAborted, FARPAGE_ABORTED) &&
              is_same(Code::kProtocol, FARPAGE_PROTOCOL) &&
              is_same(Code::kSystem, FARPAGE_SYSTEM) && kCodes == FARPAGE_BUSY);
static_assert(is_same(Reason::kNone, FARPAGE_REASON_NONE) &&
              is_same(Reason::kMiss, FARPAGE_REASON_MISS) &&
              is_same(Reason::kStale, FARPAGE_REASON_STALE) &&
              is_same(Reason::kCorrupt, FARPAGE_REASON_CORRUPT) &&
              is_same(Reason::kStalled, FARPAGE_REASON_STALLED) &&
              is_same(Reason::kUnreachable, FARPAGE_REASON_UNREACHABLE) &&
              is_same(Reason::kSlower, FARPAGE_REASON_SLOWER) && kReasons == 7);
static_assert(is_same(prefetch::Mark::kNone, FARPAGE_MARK_NONE) &&
              is_same(prefetch::Mark::kBegins, FARPAGE_MARK_BEGINS) &&
              is_same(prefetch::Mark::kExplores, FARPAGE_MARK_EXPLORES) &&
              is_same(prefetch::Mark::kVerifies, FARPAGE_MARK_VERIFIES) &&
              is_same(prefetch::Mark::kConcludes, FARPAGE_MARK_CONCLUDES) && prefetch::kMarks == 5);

}  // namespace

farpage_code_t to_c(Code code) noexcept {
  // The client settles with the nodes by itself which epoch it is.
  if (code == Code::kOtherEpoch) return FARPAGE_UNAVAILABLE;
  return static_cast<farpage_code_t>(code);
}

farpage_reason_t to_c(Reason reason) noexcept {
  return static_cast<farpage_reason_t>(reason);
}

farpage_code_t refuse(farpage_code_t code, std::string_view sentence) noexcept {
  keep("{}", sentence);
  return code;
}

farpage_code_t refuse(const Error& error) noexcept {
  return refuse(to_c(error.code), error.message);
}

farpage_code_t refuse_thrown(const char* what) noexcept {
  keep("an error that should not happen, please report it: {}", what);
  return FARPAGE_SYSTEM;
}

farpage_code_t require(const void* pointer, const char* name) noexcept {
  if (pointer != nullptr) return FARPAGE_OK;
  keep("{} is null: see farpage.h for what the call takes", name);
  return FARPAGE_INVALID;
}

farpage_code_t require_items(const void* items, const char* name, size_t count) noexcept {
  if (count == 0) return FARPAGE_OK;
  if (const auto code = require(items, name); code != FARPAGE_OK) return code;
  if (count <= kMostItems) return FARPAGE_OK;
  keep("count is {}, and one call takes {} {} at the most: divide them among calls", count,
       kMostItems, name);
  return FARPAGE_INVALID;
}

farpage_code_t require_owner(const Owner& owner) noexcept {
  if (owner.is_here()) return FARPAGE_OK;
  keep("process {} has opened this, and {} is its fork: open a client of its own here",
       owner.process(), ::getpid());
  return FARPAGE_INVALID;
}

}  // namespace farpage::c_api

const char* farpage_last_error(void) {
  return farpage::c_api::last_sentence.data();
}
