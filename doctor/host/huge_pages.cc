#include "doctor/host/huge_pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/memory/mapping.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace farpage::doctor {
namespace {

constexpr const char* kHugePages = "huge pages";
constexpr const char* kHugePagesFolder = "/sys/kernel/mm/transparent_hugepage";
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; missing in older headers
constexpr uint64_t kHugePageBytes = 2 * kMiB;

int try_collapse() {
  const UniqueFd fd(::memfd_create("farpage-doctor", MFD_CLOEXEC));
  if (!fd.valid() || ::ftruncate(fd.get(), kHugePageBytes) != 0) return errno;
  auto mapping = Mapping::share(fd.get(), kHugePageBytes, Protection::kReadWrite);
  if (!mapping) return ENOMEM;
  *const_cast<volatile std::byte*>(mapping->data()) = std::byte{0};
  return ::madvise(mapping->data(), kHugePageBytes, kMadviseCollapse) == 0 ? 0 : errno;
}

// "always [madvise] never" → "madvise"
std::string choice(const HostFiles& files, const std::string& name) {
  const std::string text = files.text(std::string(kHugePagesFolder) + "/" + name).value_or("");
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

uint64_t meminfo(const HostFiles& files, const char* key) {
  const std::string text = files.value("/proc/meminfo", key).value_or("");
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool chosen(const std::string& choice, std::initializer_list<const char*> among) {
  for (const char* each : among) {
    if (choice == each) return true;
  }
  return false;
}

}  // namespace

HugePageFacts read_huge_pages(const HostFiles& files) {
  HugePageFacts facts;
  facts.collapse_error = try_collapse();
  facts.enabled = choice(files, "enabled");
  facts.shmem_enabled = choice(files, "shmem_enabled");
  facts.defrag = choice(files, "defrag");
  facts.reserved = meminfo(files, "HugePages_Total");
  facts.reserved_page_bytes = meminfo(files, "Hugepagesize") * kKiB;
  return facts;
}

Finding check_pool_huge_pages(const HugePageFacts& facts, const Privileges& privileges) {
  Finding finding = {kHugePages, "shmem_enabled"};
  const std::string setting =
      facts.shmem_enabled.empty() ? "not readable" : "'" + facts.shmem_enabled + "'";
  if (facts.collapse_error == 0) {
    finding.text =
        fmt::format("pools get huge pages: MADV_COLLAPSE works (shmem_enabled is {})", setting);
    return finding;
  }
  const std::string why =
      facts.collapse_error == EINVAL
          ? "MADV_COLLAPSE is refused (it came with Linux 6.1)"
          : fmt::format("MADV_COLLAPSE is refused ({})", std::strerror(facts.collapse_error));
  if (chosen(facts.shmem_enabled, {"always", "within_size", "advise", "force"})) {
    finding.text =
        fmt::format("pools get huge pages by shmem_enabled, which is {}; {}", setting, why);
    return finding;
  }
  finding.level = Level::kWarning;
  finding.text = fmt::format(
      "pools get small pages only, and random reads miss the TLB: {}, and "
      "shmem_enabled is {}",
      why, setting);
  finding.command = privileges.write("advise", std::string(kHugePagesFolder) + "/shmem_enabled");
  return finding;
}

Finding check_thp_enabled(const HugePageFacts& facts, const Privileges& privileges) {
  Finding finding = {kHugePages, "enabled"};
  if (facts.enabled.empty()) {
    finding.level = Level::kNote;
    finding.text = "this kernel does not say whether it has transparent huge pages";
  } else if (facts.enabled == "never") {
    finding.level = Level::kWarning;
    finding.text = "landing places get small pages only: transparent huge pages are off ('never')";
    finding.command = privileges.write("madvise", std::string(kHugePagesFolder) + "/enabled");
  } else {
    finding.text = fmt::format("landing places get huge pages ('{}')", facts.enabled);
  }
  return finding;
}

Finding check_thp_defrag(const HugePageFacts& facts, const Privileges& privileges) {
  Finding finding = {kHugePages, "defrag"};
  if (facts.defrag.empty()) {
    finding.level = Level::kNote;
    finding.text = "this kernel does not say when it compacts memory for huge pages";
  } else if (facts.defrag == "always") {
    finding.level = Level::kWarning;
    finding.text = "any page fault may wait for compaction ('always'), and miss a deadline for it";
    finding.command = privileges.write("madvise", std::string(kHugePagesFolder) + "/defrag");
  } else {
    finding.text =
        fmt::format("only a process that asks for huge pages waits for them ('{}')", facts.defrag);
  }
  return finding;
}

Finding check_reserved_huge_pages(const HugePageFacts& facts, const Privileges& privileges) {
  Finding finding = {kHugePages, "reserved"};
  if (facts.reserved == 0) {
    finding.text = "none are reserved, and farpage needs none";
    return finding;
  }
  finding.level = Level::kNote;
  finding.text = fmt::format("{} are set aside as reserved huge pages, of which farpage uses none",
                             format_bytes(facts.reserved * facts.reserved_page_bytes));
  finding.command = privileges.set_sysctl("vm.nr_hugepages", "0");
  return finding;
}

}  // namespace farpage::doctor
