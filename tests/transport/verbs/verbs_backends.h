#pragma once

#include "tests/transport/contract/contract.h"

// Of the machine that scripts/test-softroce boots.
namespace farpage::contract {

Backend one_device();  // with itself: everything is done before the post returns
Backend over_the_network();
Backend two_devices();  // a path on each, both of a device with itself
// The first path over the network, from rxe0 to rxe2, the second one beside it.
Backend two_ways();

}  // namespace farpage::contract
