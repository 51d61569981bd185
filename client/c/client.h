#pragma once

#include <farpage/farpage.h>

#include <memory>

#include "client/c/live_tickets.h"
#include "client/c/owner.h"
#include "client/c/regions.h"
#include "client/farpage.h"

struct farpage_client {
  farpage::c_api::Owner owner;
  std::unique_ptr<farpage::Farpage> tier;
  farpage::c_api::Regions regions;  // go before it
  // A ticket joins them under a Regions::Reader, so that a region which goes sees who lends it.
  const std::shared_ptr<farpage::c_api::LiveTickets> tickets =
      std::make_shared<farpage::c_api::LiveTickets>();
};
