#include "tests/support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>

#include "base/check.h"
#include "net/security/freed.h"

namespace farpage {
namespace {

using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using File = std::unique_ptr<std::FILE, Freed<std::FILE, std::fclose>>;

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  FARPAGE_CHECK(extension != nullptr);
  FARPAGE_CHECK(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

Certificate make_certificate(EVP_PKEY* key, const std::string& name, int64_t begins_s,
                             int64_t ends_s) {
  static long serial = 0;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), begins_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), ends_s);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void write_certificate(const std::string& path, X509* certificate) {
  const File file(std::fopen(path.c_str(), "w"));
  FARPAGE_CHECK(file != nullptr && PEM_write_X509(file.get(), certificate) == 1);
}

void write_key(const std::string& path, EVP_PKEY* key) {
  const File file(std::fopen(path.c_str(), "w"));
  FARPAGE_CHECK(file != nullptr && ::fchmod(::fileno(file.get()), S_IRUSR | S_IWUSR) == 0 &&
                PEM_write_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
}

}  // namespace

struct TestCa::Signer {
  Key key;
  Certificate certificate;
};

TestCa::TestCa(const std::string& folder, const std::string& name)
    : folder_(folder), file_(folder + "/" + name + ".pem"), signer_(std::make_unique<Signer>()) {
  constexpr int64_t kDayS = 86'400;
  signer_->key = Key(EVP_EC_gen("P-256"));
  signer_->certificate = make_certificate(signer_->key.get(), name, -30 * kDayS, 30 * kDayS);
  X509* certificate = signer_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign");
  FARPAGE_CHECK(X509_sign(certificate, signer_->key.get(), EVP_sha256()) > 0);
  write_certificate(file_, certificate);
}

TestCa::~TestCa() = default;

TlsFiles TestCa::issue(const std::string& name, const Wish& wish) const {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = make_certificate(key.get(), name, wish.begins_s, wish.ends_s);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer_->certificate.get()));
  add_extension(certificate.get(), signer_->certificate.get(), NID_subject_alt_name, wish.names);
  FARPAGE_CHECK(X509_sign(certificate.get(), signer_->key.get(), EVP_sha256()) > 0);
  TlsFiles files = {folder_ + "/" + name + ".pem", folder_ + "/" + name + ".key", ""};
  write_certificate(files.certificate, certificate.get());
  write_key(files.key, key.get());
  return files;
}

}  // namespace farpage
