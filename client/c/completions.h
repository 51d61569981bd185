#pragma once

#include <farpage/farpage.h>

#include <memory>

#include "client/c/owner.h"
#include "client/runner/completions.h"

// Shared with the tickets that name it: one that ends after the handle still adds its tag.
struct farpage_completions {
  farpage::c_api::Owner owner;
  std::shared_ptr<farpage::Completions> queue;
};
