#pragma once

#include <string>
#include <string_view>

namespace farpage {

// Advice about a handshake that failed. `verified`: X509_V_…, what was wrong with the peer's
// certificate; if nothing was, `alert`: SSL_R_…, what the peer has said of this side's. `peer`: who
// it is; `table`: the one of the configuration that names what this side shows and believes.
std::string advise_on_tls(long verified, int alert, std::string_view peer, std::string_view table);

}  // namespace farpage
