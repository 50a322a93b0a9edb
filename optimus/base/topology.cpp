#include "optimus/base/topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <thread>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/base/system_files.hpp"

namespace optimus {
namespace {

// cpu.max: "quota period" in microseconds, or "max period".
std::optional<double> parse_quota(const std::string& text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

using TopologyHandle = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

TopologyHandle load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw DeviceError("[base] hwloc cannot start");
  TopologyHandle topology(raw, &hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) throw DeviceError("[base] hwloc cannot read the machine's topology");
  return topology;
}

Index count(hwloc_topology_t topology, hwloc_obj_type_t type) { return std::max(hwloc_get_nbobjs_by_type(topology, type), 1); }

std::string processor_name(hwloc_topology_t topology) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* name = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return name == nullptr ? "" : name;
}

std::string as_list(const hwloc_bitmap_s* set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) throw DeviceError("[base] hwloc cannot print a processor set");
  std::string result(text);
  std::free(text);
  return result;
}

}  // namespace

Index usable_threads() {
  Index allowed = std::max<Index>(std::thread::hardware_concurrency(), 1);
  cpu_set_t mask;
  // Machines with more processors than a cpu_set_t holds say EINVAL; hardware_concurrency has counted them already.
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) allowed = CPU_COUNT(&mask);
  const auto quota = control_group_limit("cpu.max", parse_quota);
  return std::max<Index>(1, quota ? std::min(allowed, static_cast<Index>(std::ceil(*quota))) : allowed);
}

Topology read_topology() {
  const TopologyHandle topology = load_topology();
  const Bitmap bound(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (!bound) throw DeviceError("[base] hwloc has no memory");
  const hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology.get());
  if (hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) != 0) hwloc_bitmap_copy(bound.get(), all);

  Topology t;
  t.usable_threads = usable_threads();
  t.cores = count(topology.get(), HWLOC_OBJ_CORE);
  t.threads = count(topology.get(), HWLOC_OBJ_PU);
  t.sockets = count(topology.get(), HWLOC_OBJ_PACKAGE);
  t.numa_nodes = count(topology.get(), HWLOC_OBJ_NUMANODE);
  Index bound_cores = 0;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (hwloc_bitmap_intersects(core->cpuset, bound.get()) != 0) ++bound_cores;
  }
  t.usable_cores = std::clamp<Index>(bound_cores, 1, t.usable_threads);
  t.processor = processor_name(topology.get());
  if (hwloc_bitmap_isincluded(all, bound.get()) == 0) t.bound_to = as_list(bound.get());
  return t;
}

std::string Topology::str() const {
  const std::string name = processor.empty() ? "" : processor + ", ";
  const std::string pinning = bound_to.empty() ? "not pinned" : "pinned to processors " + bound_to;
  return fmt::format("{} of {} ({}{}, {}), {}", usable_cores, counted(cores, "core"), name, counted(sockets, "socket"), counted(numa_nodes, "NUMA node"),
                     pinning);
}

}  // namespace optimus
