#include "net/security/tls_advice.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace farpage {
namespace {

std::string advice_about_peer(long verified, std::string_view peer, std::string_view table) {
  switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("reach the {} by a name that its certificate shows", peer);
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("renew the {}'s certificate, or check this machine's clock", peer);
    default:
      return fmt::format("does {}.tls_ca name its CA?", table);
  }
}

// The peer's verdict on the certificate that this side shows.
std::string advice_about_own(int alert, std::string_view peer, std::string_view table) {
  switch (alert) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return fmt::format(
          "it wants a certificate: name one with {0}.tls_certificate and {0}.tls_key", table);
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return fmt::format(
          "the certificate in {}.tls_certificate has expired, or is not valid yet "
          "by the {}'s clock: renew it",
          table, peer);
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return fmt::format(
          "it does not trust the certificate in {}.tls_certificate: name one signed by a CA that "
          "the {} trusts",
          table, peer);
    default:
      return fmt::format("does the {} speak TLS?", peer);
  }
}

}  // namespace

std::string advise_on_tls(long verified, int alert, std::string_view peer, std::string_view table) {
  if (verified != X509_V_OK) return advice_about_peer(verified, peer, table);
  return advice_about_own(alert, peer, table);
}

}  // namespace farpage
