#pragma once

#include "doctor/finding/finding.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct HugePageFacts {
  int collapse_error = 0;  // errno of MADV_COLLAPSE over shared memory; 0: it works
  std::string enabled;     // the choices of /sys/kernel/mm/transparent_hugepage; "": not readable
  std::string shmem_enabled;
  std::string defrag;
  uint64_t reserved = 0;  // pages that are set aside, of Hugepagesize
  uint64_t reserved_page_bytes = 0;
};

HugePageFacts read_huge_pages(const HostFiles& files);

// Whether a pool on shm gets huge pages (docs/decisions/0007).
Finding check_pool_huge_pages(const HugePageFacts& facts, const Privileges& privileges);
Finding check_thp_enabled(const HugePageFacts& facts, const Privileges& privileges);
Finding check_thp_defrag(const HugePageFacts& facts, const Privileges& privileges);
Finding check_reserved_huge_pages(const HugePageFacts& facts, const Privileges& privileges);

}  // namespace farpage::doctor
