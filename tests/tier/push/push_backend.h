#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.h"

namespace farpage {

// The backend that push_process_test.cc runs over; each program that links it has one.
std::unique_ptr<Fabric> make_push_fabric();
std::vector<std::string> push_node_arguments();

}  // namespace farpage
