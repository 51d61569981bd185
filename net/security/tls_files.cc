#include "net/security/tls_files.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <memory>

#include "net/secrets/file_rights.h"
#include "net/security/freed.h"

namespace farpage {
namespace {

using Text = std::unique_ptr<BIO, Freed<BIO, BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;

tl::unexpected<Error> refuse_file(const char* what, const std::string& file) {
  return fail(Code::kInvalid, fmt::format("cannot use {} '{}' ({}): name a PEM file", what, file,
                                          last_openssl_error()));
}

constexpr const char* kMissing = "name a PEM file that is there";

Result<std::string> read_pem(const char* what, const std::string& file) {
  return read_small_file(file, what, kMissing);
}

Text text_of(const std::string& pem) {
  return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A key that is locked with a passphrase is refused: no one is there to be asked.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

// The end of a PEM file that holds one more or nothing else.
bool is_at_end() {
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return false;
  }
  ERR_clear_error();
  return true;
}

Result<void> load_certificate(SSL_CTX* context, const std::string& file) {
  constexpr const char* kWhat = "the certificate";
  const auto pem = read_pem(kWhat, file);
  if (!pem) return tl::unexpected(pem.error());
  const Text text = text_of(*pem);
  const Certificate own(PEM_read_bio_X509_AUX(text.get(), nullptr, no_passphrase, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return refuse_file(kWhat, file);
  }
  while (Certificate next{PEM_read_bio_X509(text.get(), nullptr, no_passphrase, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) return refuse_file(kWhat, file);
    (void)next.release();  // the context's now
  }
  if (!is_at_end()) return refuse_file(kWhat, file);
  return {};
}

Result<void> check_unlocked(const std::string& pem, const std::string& file) {
  if (pem.find("BEGIN ENCRYPTED PRIVATE KEY") == std::string::npos &&
      pem.find("Proc-Type: 4,ENCRYPTED") == std::string::npos) {
    return {};
  }
  return fail(Code::kInvalid,
              fmt::format("the key '{0}' is encrypted, and the program cannot ask for its "
                          "passphrase: decrypt it with '(umask 077; openssl pkey -in {0} -out "
                          "{0}.plain)', and name that file",
                          file));
}

Result<void> load_key(SSL_CTX* context, const TlsFiles& files) {
  constexpr const char* kWhat = "the key";
  const auto pem = read_private_file(files.key, kWhat, kMissing);
  if (!pem) return tl::unexpected(pem.error());
  if (auto unlocked = check_unlocked(*pem, files.key); !unlocked) return unlocked;
  const Text text = text_of(*pem);
  const Key key(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) return refuse_file(kWhat, files.key);
  if (SSL_CTX_use_PrivateKey(context, key.get()) == 1) return {};
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_X509 || ERR_GET_REASON(error) != X509_R_KEY_VALUES_MISMATCH) {
    return refuse_file(kWhat, files.key);
  }
  ERR_clear_error();
  return fail(Code::kInvalid, fmt::format("the key '{}' does not belong to the certificate '{}'",
                                          files.key, files.certificate));
}

Result<void> check_dates(SSL_CTX* context, const std::string& file) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return fail(Code::kInvalid, fmt::format("the certificate '{}' has expired: renew it", file));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return fail(
        Code::kInvalid,
        fmt::format("the certificate '{}' is not valid yet: check this machine's clock", file));
  }
  return {};
}

}  // namespace

std::string last_openssl_error() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0) return "OpenSSL does not say why";
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("OpenSSL error {:#x}", error);
}

Result<void> load_identity(SSL_CTX* context, const TlsFiles& files) {
  return load_certificate(context, files.certificate)
      .and_then([&] { return load_key(context, files); })
      .and_then([&] { return check_dates(context, files.certificate); });
}

Result<void> load_ca(SSL_CTX* context, const std::string& file) {
  constexpr const char* kWhat = "the CA's certificate";
  const auto pem = read_pem(kWhat, file);
  if (!pem) return tl::unexpected(pem.error());
  const Text text = text_of(*pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  size_t count = 0;
  while (
      const Certificate next{PEM_read_bio_X509_AUX(text.get(), nullptr, no_passphrase, nullptr)}) {
    // OpenSSL works out what a certificate may do when it is first asked: once, before threads
    // share it.
    X509_check_purpose(next.get(), -1, 0);
    if (X509_STORE_add_cert(store, next.get()) != 1) return refuse_file(kWhat, file);
    ++count;
  }
  if (count == 0 || !is_at_end()) return refuse_file(kWhat, file);
  return {};
}

}  // namespace farpage
