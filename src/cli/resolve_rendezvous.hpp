// SPDX-License-Identifier: BSD-3-Clause
// The options of the rendezvous, --standalone and the plain launch on one node included (contract 1.5, 2.1 to 2.5).
#pragma once

#include "cli/raw_args.hpp"
#include "core/error.hpp"
#include "core/host_facts.hpp"
#include "core/launch_config.hpp"

#include <vector>

namespace cpprun {

/// --nnodes taken apart: 1 <= min <= max.
struct NodeRange {
    int min = 1;
    int max = 1;
};

/// Reads "N" or "MIN:MAX", numbers in Python's syntax. Error, ErrorKind::usage: anything else.
Result<NodeRange> parse_node_range(const RawArgs& raw);

/// Derives the rendezvous and appends torchrun's warnings about options that it does not use. A run that is given no id
/// takes `host.random_uuid`. Errors, ErrorKind::usage: an unknown backend, a bad endpoint, port or --rdzv-conf; and,
/// where torchrun would wait for nothing until its time-out, a --node-rank outside the job and, for several nodes,
/// port 0 and a file as store.
Result<RendezvousConfig> resolve_rendezvous(const RawArgs& raw, NodeRange nodes, const HostFacts& host,
                                            std::vector<Notice>& notices);

}  // namespace cpprun
