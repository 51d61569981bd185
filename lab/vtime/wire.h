#pragma once

#include <cstdint>
#include <optional>

#include "prefetch/page_source.h"

namespace farpage::vtime {

// What lies between the near memory and all that is below it, and the clock by which pages come. A
// page that is near is not asked for. On one thread.
class Wire : public prefetch::PageSource {
 public:
  using PageNumber = prefetch::PageNumber;

  struct Landed {
    PageNumber page = 0;
    bool is_demand = false;
    bool is_whole = true;  // false: it does not come
  };

  virtual uint64_t now_ns() const = 0;
  // A page was accessed, and is near or on its way; for who wants to know.
  virtual void on_access(const prefetch::Access&) {}
  // A page is demanded: fetched by the next send() at the latest.
  virtual void demand(PageNumber page) = 0;
  virtual void send() = 0;
  // Lets time pass until a page has landed, or until then.
  virtual std::optional<Landed> next(uint64_t until_ns) = 0;

  // There was none before, and it is near.
  virtual void make(PageNumber page) = 0;
  // It is near no more, and kept below.
  virtual void keep(PageNumber page) = 0;
  // Its memory is wanted no more: once the step that it left in has its pages, or when it has
  // landed and there is no room for it.
  virtual void forget(PageNumber page) = 0;
};

}  // namespace farpage::vtime
