#include "replay/text/text_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "replay/text/gunzip.h"
#include "replay/text/line_reader.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using namespace std::literals;
using testing::HasSubstr;

// As gzip packs it, by zlib itself.
std::string packed(std::string_view text, int level = 6) {
  z_stream stream = {};
  EXPECT_EQ(::deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string bytes(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  ::deflateEnd(&stream);
  return bytes;
}

class TextFileTest : public testing::Test {
 protected:
  Result<std::string> read(const std::string& bytes, size_t at_once = 65'536) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    auto file = TextFile::open(path_);
    if (!file) return tl::unexpected(file.error());
    std::string text;
    std::string some(at_once, '\0');
    while (true) {
      const auto count = file->read(some);
      if (!count) return tl::unexpected(count.error());
      if (*count == 0) return text;
      text.append(some, 0, *count);
    }
  }
  void expect_refused(const std::string& bytes, Code code, const std::string& because) const {
    const auto text = read(bytes);
    ASSERT_FALSE(text.has_value()) << because;
    EXPECT_EQ(text.error().code, code) << text.error().message;
    EXPECT_THAT(text.error().message, HasSubstr(path_));
    EXPECT_THAT(text.error().message, HasSubstr(because));
  }
  void expect_told(const std::string& bytes, const std::string& what) const {
    expect_refused(bytes, Code::kNotFound, what);
  }

  TempDir folder_;
  const std::string path_ = folder_ / "trace";
};

// Long enough for several reads, and different everywhere.
const std::string& long_text() {
  static std::string text;
  if (!text.empty()) return text;
  for (int i = 0; i < 40'000; ++i) text += fmt::format("line {}\n", i * 7919);
  return text;
}

TEST_F(TextFileTest, TextIsHandedOnAsItIs) {
  for (const std::string text : {"", "a", "a\r\nb\n", "caf\xc3\xa9\tx", "latin \xe9"}) {
    EXPECT_EQ(read(text).value(), text);
  }
  EXPECT_EQ(read(long_text(), 7).value(), long_text());
}

TEST_F(TextFileTest, AByteOrderMarkIsSkippedAtTheBeginningAlone) {
  EXPECT_EQ(read("\xef\xbb\xbftext").value(), "text");
  EXPECT_EQ(read("\xef\xbb\xbf").value(), "");
  EXPECT_EQ(read("a\xef\xbb\xbf").value(), "a\xef\xbb\xbf");
  EXPECT_EQ(read(packed("\xef\xbb\xbftext")).value(), "text");
}

TEST_F(TextFileTest, GzipIsUnpackedWhateverTheFileIsCalled) {
  for (const int level : {0, 1, 9}) {
    EXPECT_EQ(read(packed(long_text(), level)).value(), long_text());
  }
  EXPECT_EQ(read(packed("")).value(), "");
  EXPECT_EQ(read(packed(long_text()), 3).value(), long_text());
}

TEST_F(TextFileTest, MembersOfGzipFollowOneAnother) {
  EXPECT_EQ(read(packed("a") + packed("") + packed("b\n") + packed("")).value(), "ab\n");
  EXPECT_EQ(read(packed(long_text()) + packed(long_text())).value(), long_text() + long_text());
  // Tapes are filled up with zeros.
  EXPECT_EQ(read(packed("a") + std::string(100'000, '\0')).value(), "a");
  expect_refused(packed("a") + "rest", Code::kInvalid, "something that gzip did not pack follows");
}

TEST_F(TextFileTest, GzipThatWasCutOffOrDamagedIsToldSo) {
  const std::string whole = packed(long_text());
  for (const size_t bytes :
       {size_t{2}, size_t{5}, size_t{30}, whole.size() / 2, whole.size() - 1}) {
    expect_refused(whole.substr(0, bytes), Code::kInvalid, "ends too early: it was cut off");
  }
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 0x55;
  expect_refused(damaged, Code::kInvalid, "damaged");
  std::string wrong_sum = whole;
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  expect_refused(wrong_sum, Code::kInvalid, "damaged");
}

TEST_F(TextFileTest, SoLittleGzipThatBecomesSoMuchIsNoTrace) {
  const std::string blank = packed(std::string(1 << 20, ' '), 9);
  std::string bomb;
  for (uint64_t bytes = 0; bytes <= kUnpackedUnjudgedBytes; bytes += 1 << 20) bomb += blank;
  expect_refused(bomb, Code::kInvalid, "no trace repeats itself so much");
  // One line over and over may be a trace.
  std::string same;
  for (int i = 0; i < 200'000; ++i) same += "{\"hash_ids\":[1]}\n";
  EXPECT_EQ(read(packed(same)).value(), same);
}

TEST_F(TextFileTest, APointerOfGitIsToldWithWhatBringsTheFile) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 132054902\n";
  expect_told(pointer, "is a Git LFS pointer, and not the file of 132054902 bytes");
  expect_told(pointer, "git lfs pull");
  expect_told("version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer");
  expect_told("/annex/objects/SHA256E-s10--00.jsonl\n", "git annex get");
  expect_told(packed(pointer), "is packed with gzip, and what comes out is a Git LFS pointer");
}

TEST_F(TextFileTest, OtherFormsArePackedFilesToldByName) {
  for (const auto& [bytes, what] : {
           std::pair("\x28\xb5\x2f\xfd\x04"s, "is compressed with zstd: unpack it first (zstd -d)"),
           std::pair("\xfd"
                     "7zXZ\0\0"s,
                     "compressed with xz"),
           std::pair("BZh91AY"s, "compressed with bzip2"),
           std::pair("\x04\x22\x4d\x18\x40"s, "compressed with lz4"),
           std::pair("PK\x03\x04\x14\0"s, "is a zip archive"),
           std::pair("7z\xbc\xaf\x27\x1c\0"s, "is a 7z archive"),
           std::pair("PAR1\x15\0"s, "is a Parquet file"),
           std::pair("ARROW1\0\0"s, "is an Arrow file"),
           std::pair("SQLite format 3\0"s, "is an SQLite database"),
           std::pair("FPACCESS\x01\0"s, "is an access trace: add --format access"),
           std::pair("\n <!DOCTYPE html><html>"s, "is a web page"),
           std::pair("<?xml version=\"1.0\"?>"s, "is a web page, or another document"),
           std::pair("\x7f"
                     "ELF\x02\x01"s,
                     "is a binary file"),
           std::pair("ab\0cd"s, "is a binary file"),
       }) {
    expect_told(bytes, what);
  }
  std::string archive(1'024, '\0');
  archive.replace(0, 7, "a.jsonl").replace(257, 5, "ustar");
  expect_told(archive, "is a tar archive");
  expect_told(packed(archive), "what comes out is a tar archive");
  expect_told(packed(packed("a")), "what comes out is compressed with gzip");
}

TEST_F(TextFileTest, TextInUtf16IsToldWithHowToChangeIt) {
  expect_told("\xff\xfe{\0}\0"s, "is text in UTF-16: make it UTF-8 (iconv -f UTF-16 -t UTF-8)");
  expect_told("\xfe\xff\0{\0}"s, "is text in UTF-16");
  expect_told("{\0\"\0a\0"s, "iconv -f UTF-16LE");
  expect_told("\0{\0\"\0a"s, "iconv -f UTF-16BE");
  expect_told("\xff\xfe\0\0{\0\0\0"s, "is text in UTF-32");
}

TEST_F(TextFileTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(TextFile::open("/nowhere/trace").error().code, Code::kNotFound);
  auto folder = TextFile::open(folder_.path());
  std::string some(8, '\0');
  ASSERT_TRUE(folder.has_value());
  EXPECT_THAT(folder->read(some).error().message, HasSubstr("cannot read the trace"));
}

TEST_F(TextFileTest, LinesAreThoseOfTheTextThatGzipHasPacked) {
  std::ofstream(path_, std::ios::binary) << packed(
      "\xef\xbb\xbf"
      "one\r\ntwo\nthree");
  auto lines = LineReader::open(path_);
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(lines->next().value(), "one\r");
  EXPECT_EQ(lines->with_rest().value(), "one\r\ntwo\nthree");
  EXPECT_EQ(lines->next().value(), std::nullopt);
}

}  // namespace
}  // namespace farpage
