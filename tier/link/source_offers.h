#pragma once

#include <memory>

#include "tier/link/client_sources.h"
#include "tier/link/view.h"

namespace farpage {

// Tells a node of the sources that its run has not been told of, as far as it takes any. Until it
// has answered, and where it refuses, their pages go through the staging. Any thread.
void offer_sources(const std::shared_ptr<View>& view, const ClientSources& sources);

// Tells it that one has gone, if it was told of it. Any thread.
void withdraw_source(View& view, uint32_t source);

}  // namespace farpage
