#include "net/security/tls_files.h"

#include <fstream>
#include <string>

#include "tests/net/pair.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

class FilesOfTls : public ::testing::Test {
 protected:
  std::string refusal() const {
    const auto context = TlsContext::for_node(files_);
    return context ? "" : context.error().message;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempDir dir_;
  TestCa ca_{dir_ / ""};
  TlsFiles files_ = ca_.issue("node");
};

// The forms of PKCS #8 and of OpenSSL's own, as RFC 5958 and RFC 1421 have them.
TEST_F(FilesOfTls, EncryptedKeyIsNamedAsSuchWithTheCommandThatDecryptsIt) {
  for (const char* text : {"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n"
                           "-----END ENCRYPTED PRIVATE KEY-----\n",
                           "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
                           "DEK-Info: AES-256-CBC,00\n\nMIHs\n-----END EC PRIVATE KEY-----\n"}) {
    std::ofstream(files_.key) << text;
    for (const auto& context : {TlsContext::for_node(files_), TlsContext::for_client(files_)}) {
      ASSERT_FALSE(context.has_value());
      expect_says(context.error(), "'" + files_.key + "' is encrypted");
      expect_says(context.error(), "openssl pkey -in " + files_.key);
    }
  }
}

TEST_F(FilesOfTls, ChainBehindTheCertificateIsTakenAsAWhole) {
  std::ofstream(files_.certificate, std::ios::app) << text_of(ca_.file());
  EXPECT_EQ(refusal(), "");
  std::ofstream(files_.certificate, std::ios::app) << "-----BEGIN CERTIFICATE-----\nMII";
  EXPECT_NE(refusal().find("cannot use the certificate"), std::string::npos) << refusal();
}

TEST_F(FilesOfTls, EveryCaOfAFileIsTakenAndHalfAFileIsNot) {
  const TestCa other(dir_ / "", "other");
  files_.ca = dir_ / "all.pem";
  std::ofstream(files_.ca) << "a comment\n" << text_of(other.file()) << text_of(ca_.file());
  EXPECT_EQ(refusal(), "");
  const std::string all = text_of(files_.ca);
  std::ofstream(files_.ca) << all.substr(0, all.size() - 40);
  EXPECT_NE(refusal().find("cannot use the CA's certificate"), std::string::npos) << refusal();
}

TEST_F(FilesOfTls, KeyInFrontOfOrBehindTheCertificateIsFound) {
  const std::string both = dir_ / "both.pem";
  std::ofstream(both) << text_of(files_.key) << text_of(files_.certificate);
  std::filesystem::permissions(both, std::filesystem::perms::owner_read);
  files_.certificate = files_.key = both;
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace farpage
