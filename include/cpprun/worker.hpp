// SPDX-License-Identifier: BSD-3-Clause
// For native programs that are started as workers by cpprun or torchrun: where am I among the workers, and how do I
// leave word of a failure that the launcher's report can show. Needs no PyTorch; only the standard library.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace cpprun {

/// A worker's place in the world, as its launcher describes it. Every rank is in [0, the size it belongs to).
/// Source: the environment that torchrun gives each worker (contract 3.1).
struct Place {
    int rank = 0;                   ///< RANK: among all workers
    int world_size = 1;             ///< WORLD_SIZE
    int local_rank = 0;             ///< LOCAL_RANK: on this node; 0 for all under --virtual-local-rank
    int local_world_size = 1;       ///< LOCAL_WORLD_SIZE
    int group_rank = 0;             ///< GROUP_RANK: this node among the nodes
    int group_world_size = 1;       ///< GROUP_WORLD_SIZE
    int role_rank = 0;              ///< ROLE_RANK: among the workers of the same role
    int role_world_size = 1;        ///< ROLE_WORLD_SIZE
    std::string role_name;          ///< ROLE_NAME
    std::string master_addr;        ///< MASTER_ADDR: host name or address of the store, an IPv6 one without brackets
    std::uint16_t master_port = 0;  ///< MASTER_PORT
    bool agent_store = false;       ///< TORCHELASTIC_USE_AGENT_STORE=True: the agent serves the store, all are clients
    int restart_count = 0;          ///< TORCHELASTIC_RESTART_COUNT: attempts before this one
    int max_restarts = 0;           ///< TORCHELASTIC_MAX_RESTARTS
    std::string run_id;             ///< TORCHELASTIC_RUN_ID
};

/// The environment does not describe a place. what() names the variable and its value, and says what to do.
class PlaceError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Looks a variable up: its value, or nullptr when it is not set. Called during the call it is given to only.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Reads the place from this process's environment. Throws PlaceError when RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, MASTER_ADDR or MASTER_PORT is missing (the program was not started by a launcher), or when any
/// variable is malformed or a rank lies outside its world. The others keep Place's defaults when they are missing.
/// Reads the environment: not to be called while another thread changes it.
Place place_from_environment();

/// The same from any source of variables.
Place place_from(const EnvironmentLookup& lookup);

/// Runs `body` and returns what it returns. When it throws, describes the exception (with those nested in it) on
/// stderr and in the file that TORCHELASTIC_ERROR_FILE names, in the format of torch's @record (contract 6.1), and
/// returns 1. Never throws. For main(): `return cpprun::run_recorded([] { return train(); });`
int run_recorded(const std::function<int()>& body) noexcept;

/// Tells the launcher that this worker makes progress: one datagram to the socket that CPPRUN_HEARTBEAT_SOCKET names,
/// which is there with cpprun's --hang-after. Never waits; to be called as often as one likes, from any thread. False
/// when nobody listens or the launcher has fallen behind, which does no harm.
bool send_heartbeat() noexcept;

/// Leaves an error file at `path` in the format of torch's @record: `message` in one line, `details` what the report
/// shows below "traceback", `epoch_seconds` when it happened. The file appears whole or not at all and replaces an
/// older one; bytes that are no UTF-8 are replaced. False when it cannot be written (errno says why).
bool write_error_file(const std::string& path, const std::string& message, const std::string& details,
                      std::int64_t epoch_seconds);

}  // namespace cpprun
