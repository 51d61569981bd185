#pragma once

namespace farpage {

const char* version();

}  // namespace farpage
