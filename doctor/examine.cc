#include "doctor/examine.h"

#include <sys/resource.h>

#include "doctor/backends/backend_verbs.h"
#include "doctor/host/clock_source.h"
#include "doctor/host/cpu.h"
#include "doctor/host/gpu.h"
#include "doctor/host/huge_pages.h"
#include "doctor/host/memory.h"
#include "doctor/host/privileges.h"
#include "doctor/host/tcp_port.h"
#include "doctor/host/tcp_settings.h"
#include "doctor/host/unix_path.h"
#include "doctor/limits.h"

namespace farpage::doctor {
namespace {

void examine_memory(const Wanted& wanted, const HostFiles& files, const Privileges& privileges,
                    std::vector<Finding>& findings) {
  const MemoryFacts memory = read_memory(files);
  findings.push_back(check_available(memory, wanted));
  findings.push_back(check_cgroup(memory, wanted, privileges));
  findings.push_back(check_overcommit(memory, wanted, privileges));
  findings.push_back(check_map_count(memory, wanted, privileges));
  const HugePageFacts pages = read_huge_pages(files);
  findings.push_back(check_pool_huge_pages(pages, privileges));
  findings.push_back(check_thp_enabled(pages, privileges));
  findings.push_back(check_thp_defrag(pages, privileges));
  findings.push_back(check_reserved_huge_pages(pages, privileges));
  const size_t rdma_devices = rdma_paths(read_verbs(files), wanted);
  findings.push_back(check_memlock(read_limit(RLIMIT_MEMLOCK), rdma_devices, wanted, privileges));
  findings.push_back(
      check_descriptors(read_limit(RLIMIT_NOFILE), rdma_devices, wanted, privileges));
}

void examine_network(const Wanted& wanted, const HostFiles& files, const Privileges& privileges,
                     std::vector<Finding>& findings) {
  if (wanted.listen && wanted.listen->is_tcp()) {
    findings.push_back(check_tcp_port(read_tcp_port(*wanted.listen, files), wanted, privileges));
  } else if (wanted.listen) {
    findings.push_back(check_unix_path(read_unix_path(wanted.listen->path), wanted, privileges));
  }
  const TcpSettingsFacts settings = read_tcp_settings(files);
  for (Finding& finding : check_tcp_sysctls(settings, privileges)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(check_ipv6(settings, privileges));
}

void examine_machine(const HostFiles& files, const Privileges& privileges,
                     std::vector<Finding>& findings) {
  const CpuFacts cpu = read_cpu(files);
  findings.push_back(check_cores(cpu, privileges));
  findings.push_back(check_crc_instructions(cpu));
  findings.push_back(check_governor(cpu, privileges));
  findings.push_back(check_virtual_machine(cpu));
  const ClockFacts clock = read_clock(files);
  findings.push_back(check_boottime(clock, privileges));
  findings.push_back(check_clock_source(clock, privileges));
  findings.push_back(check_guest_clock(clock));
  const GpuFacts gpus = read_gpus(files);
  findings.push_back(check_gpu_driver(gpus, privileges));
  findings.push_back(check_gpu_path(gpus, privileges));
}

}  // namespace

std::vector<Finding> examine(const Wanted& wanted, const HostFiles& files) {
  const Privileges privileges = read_privileges(files);
  std::vector<Finding> findings;
  examine_memory(wanted, files, privileges, findings);
  examine_network(wanted, files, privileges, findings);
  examine_machine(files, privileges, findings);
  for (const BackendCheck* backend : every_check()) {
    findings.push_back(backend->examine(wanted, files, privileges));
  }
  demote(findings, wanted.asked);
  return findings;
}

}  // namespace farpage::doctor
