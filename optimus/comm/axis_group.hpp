#pragma once
// From the mesh's arithmetic to a group that can talk.

#include <memory>
#include <string_view>

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"

namespace optimus {

/// "dp", "ep", "tp", "pp", "dp_ep", "ep_tp", "dp_ep_tp".
[[nodiscard]] std::string_view axis_name(Axis axis);

/// The group of this rank along `axis`; member indices are those of the mesh.
///
/// Collective: over the members of the group. Every rank makes its groups in the same order of axes.
/// Errors:     ConfigError if `world` is not the world of `mesh`.
[[nodiscard]] std::unique_ptr<Communicator> make_axis_group(Communicator& world, const Mesh& mesh, Axis axis);

}  // namespace optimus
