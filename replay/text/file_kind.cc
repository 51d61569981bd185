#include "replay/text/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace farpage {
namespace {

using namespace std::literals;

constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
constexpr std::string_view kAnnexPointer = "/annex/objects/";
constexpr std::string_view kUnpackFirst = "unpack it first";

struct Magic {
  std::string_view bytes;
  std::string_view name;
  std::string_view advice;
};
constexpr std::array kPacked = {
    Magic{"\x1f\x8b"sv, "gzip", "gunzip"},
    Magic{"\x28\xb5\x2f\xfd"sv, "zstd", "zstd -d"},
    Magic{"\xfd"
          "7zXZ\0"sv,
          "xz", "xz -d"},
    Magic{"BZh"sv, "bzip2", "bzip2 -d"},
    Magic{"\x04\x22\x4d\x18"sv, "lz4", "lz4 -d"},
    Magic{"\xff\x06\0\0sNaPpY"sv, "snappy", "snzip -d"},
    Magic{"LZIP"sv, "lzip", "lzip -d"},
    Magic{"\x5d\0\0"sv, "lzma", "xz --format=lzma -d"},
    Magic{"\x1f\x9d"sv, "compress", "uncompress"},
    Magic{"\x89LZO\0"sv, "lzop", "lzop -d"},
};
constexpr std::array kArchives = {
    Magic{"PK\x03\x04"sv, "a zip archive", "unzip"},
    Magic{"PK\x05\x06"sv, "an empty zip archive", "unzip"},
    Magic{"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x"},
    Magic{"Rar!\x1a\x07"sv, "a rar archive", "unrar x"},
};
constexpr std::array kTables = {
    Magic{"PAR1"sv, "a Parquet file", ""},
    Magic{"ARROW1"sv, "an Arrow file", ""},
    Magic{"Obj\x01"sv, "an Avro file", ""},
    Magic{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", ""},
    Magic{"\x93NUMPY"sv, "a NumPy array", ""},
    Magic{"SQLite format 3\0"sv, "an SQLite database", ""},
};
// Order matters: UTF-32's begins as UTF-16's does.
constexpr std::array kOtherText = {
    Magic{"\xff\xfe\0\0"sv, "UTF-32", "UTF-32"},
    Magic{"\0\0\xfe\xff"sv, "UTF-32", "UTF-32"},
    Magic{"\xff\xfe"sv, "UTF-16", "UTF-16"},
    Magic{"\xfe\xff"sv, "UTF-16", "UTF-16"},
};

template <size_t kCount>
const Magic* find(const std::array<Magic, kCount>& magics, std::string_view head) {
  const auto found = std::ranges::find_if(
      magics, [&](const Magic& magic) { return head.starts_with(magic.bytes); });
  return found == magics.end() ? nullptr : &*found;
}

std::string re_encode(std::string_view name, std::string_view from) {
  return fmt::format("is text in {}: make it UTF-8 (iconv -f {} -t UTF-8)", name, from);
}

// UTF-16 of ASCII has a zero in every other byte.
std::optional<std::string> utf16_without_mark(std::string_view head) {
  const size_t pairs = head.size() / 2;
  if (pairs < 2) return std::nullopt;
  std::array<size_t, 2> zeros = {};
  for (size_t i = 0; i < pairs * 2; ++i) zeros[i % 2] += head[i] == '\0' ? 1 : 0;
  if (zeros[1] == pairs && zeros[0] == 0) return re_encode("UTF-16", "UTF-16LE");
  if (zeros[0] == pairs && zeros[1] == 0) return re_encode("UTF-16", "UTF-16BE");
  return std::nullopt;
}

std::string lfs_pointer(std::string_view head) {
  std::string of_bytes;
  if (const size_t at = head.find("\nsize "); at != std::string_view::npos) {
    const std::string_view digits = head.substr(at + 6);
    const size_t count = std::min(digits.find_first_not_of("0123456789"), digits.size());
    of_bytes = fmt::format(" of {} bytes", digits.substr(0, count));
  }
  return fmt::format(
      "is a Git LFS pointer, and not the file{} that it stands for: run \"git lfs pull\" where it "
      "was cloned, or download the file itself",
      of_bytes);
}

bool is_markup(std::string_view head) {
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return head.starts_with("<!") || head.starts_with("<?xml") || head.starts_with("<html") ||
         head.starts_with("<HTML");
}

// Control characters that no text has. Only of the first line: what follows text is said with its
// line.
bool is_binary(std::string_view head) {
  return std::ranges::any_of(head.substr(0, head.find('\n')), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t' && byte != '\r' && byte != '\f') || byte == 0x7f;
  });
}

}  // namespace

bool is_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b");
}

std::optional<std::string> known_kind(std::string_view head) {
  if (head.starts_with(kLfsPointer)) return lfs_pointer(head);
  if (head.starts_with(kAnnexPointer)) {
    return "is a git-annex pointer, and not the file that it stands for: run \"git annex get\" "
           "where it was cloned";
  }
  if (const Magic* packed = find(kPacked, head)) {
    return fmt::format("is compressed with {}: {} ({})", packed->name, kUnpackFirst,
                       packed->advice);
  }
  if (const Magic* archive = find(kArchives, head)) {
    return fmt::format("is {}: {} ({})", archive->name, kUnpackFirst, archive->advice);
  }
  if (head.size() > 262 && head.substr(257).starts_with("ustar")) {
    return fmt::format("is a tar archive: {} (tar -xf)", kUnpackFirst);
  }
  if (const Magic* table = find(kTables, head)) {
    return fmt::format("is {}: write it as text, a JSON object a line", table->name);
  }
  if (head.starts_with("FPACCESS")) return "is an access trace: add --format access";
  if (const Magic* text = find(kOtherText, head)) return re_encode(text->name, text->advice);
  if (auto text = utf16_without_mark(head)) return text;
  if (is_markup(head)) {
    return "is a web page, or another document in HTML or XML: download the file itself (its raw "
           "form)";
  }
  return std::nullopt;
}

std::optional<std::string> unlike_text(std::string_view head) {
  if (auto kind = known_kind(head)) return kind;
  if (is_binary(head)) return "is a binary file, and no text";
  return std::nullopt;
}

}  // namespace farpage
