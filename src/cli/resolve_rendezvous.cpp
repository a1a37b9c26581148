// SPDX-License-Identifier: BSD-3-Clause
#include "cli/resolve_rendezvous.hpp"

#include "cli/duration.hpp"
#include "cli/endpoint.hpp"
#include "cli/python_repr.hpp"
#include "cli/rdzv_conf.hpp"
#include "cli/wrong_value.hpp"
#include "core/text/python_number.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace cpprun {
namespace {

constexpr std::uint16_t c10d_default_port = 29400;
constexpr const char* static_default_port = "29500";
constexpr const char* default_timeout_seconds = "900";

void warn(std::vector<Notice>& notices, std::string text) {
    notices.push_back({Notice::Level::warning, std::move(text)});
}

/// Whether torchrun turns a static launch on one node into c10d on a free port (contract 2.2).
bool is_plain_single_node(const RawArgs& raw, NodeRange nodes) {
    return raw[OptionId::rdzv_backend].text == "static" && raw[OptionId::rdzv_endpoint].text.empty() &&
           !raw[OptionId::master_port].given() && nodes.max == 1;
}

Result<RendezvousKind> parse_backend(const RawArgs& raw) {
    const std::string& name = raw[OptionId::rdzv_backend].text;
    if (name == "static") return RendezvousKind::static_ranks;
    if (name == "c10d") return RendezvousKind::c10d;
    if (name == "etcd" || name == "etcd-v2")
        return invalid_value(raw, OptionId::rdzv_backend, "etcd is not supported; use c10d, which needs no service");
    return invalid_value(raw, OptionId::rdzv_backend, "this rendezvous backend is not registered");
}

Result<void> resolve_conf(const RawArgs& raw, RendezvousConfig& config, std::vector<Notice>& notices) {
    const auto refuse = [&raw](const std::string& problem) {
        return wrong_value(option(OptionId::rdzv_conf), raw[OptionId::rdzv_conf].source, problem);
    };
    for (const std::string& text : raw[OptionId::rdzv_conf].values)
        if (const std::string problem = add_rdzv_conf(text, config.conf); !problem.empty()) return refuse(problem);
    config.conf.try_emplace("timeout", default_timeout_seconds);
    if (const std::string problem = check_rdzv_conf(config.conf, config.kind); !problem.empty()) return refuse(problem);
    for (Notice& notice : unknown_rdzv_conf_keys(config.conf)) notices.push_back(std::move(notice));
    return boost::outcome_v2::success();
}

Result<void> resolve_patience(const RawArgs& raw, RendezvousConfig& config) {
    const auto lost = parse_duration(raw[OptionId::lost_after].text);
    if (!lost) return invalid_value(raw, OptionId::lost_after);
    config.lost_after = *lost;
    const auto silent = parse_duration(raw[OptionId::silent_after].text);
    // Agents give several signs of life in this time, and need some of it to stop their workers.
    if (!silent || *silent < std::chrono::seconds(1)) return invalid_value(raw, OptionId::silent_after);
    config.silent_after = *silent;
    constexpr double endless_seconds = 1e9;
    const auto barrier = parse_python_float(raw[OptionId::exit_barrier_timeout].text);
    if (!barrier || !(*barrier >= 0)) return invalid_value(raw, OptionId::exit_barrier_timeout);
    config.exit_barrier_timeout =
        *barrier >= endless_seconds
            ? std::chrono::milliseconds::max()
            : std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(*barrier));
    return boost::outcome_v2::success();
}

RankOrder rank_order(const std::string& name) {
    return name == "lexicographic" ? RankOrder::lexicographic
           : name == "host-first"  ? RankOrder::host_first
                                   : RankOrder::natural;
}

/// One node by itself: c10d on any free local port.
void take_local_endpoint(RendezvousConfig& config, const HostFacts& host) {
    config.kind = RendezvousKind::c10d;
    config.endpoint = "localhost:0";
    config.host = "localhost";
    config.port = 0;
    config.run_id = host.random_uuid;
}

Result<void> check_static_port(const RawArgs& raw, const RendezvousConfig& config, OptionId origin) {
    if (!config.port)
        return invalid_value(raw, origin,
                             "port is missing in endpoint: " + config.endpoint + ". Try to specify --master-port");
    if (*config.port == 0 && config.max_nodes > 1)
        return invalid_value(raw, origin, "the other nodes cannot know the port that 0 stands for");
    return boost::outcome_v2::success();
}

Result<void> resolve_static(const RawArgs& raw, RendezvousConfig& config) {
    const bool by_endpoint = !raw[OptionId::rdzv_endpoint].text.empty();
    const Setting& port = raw[OptionId::master_port];
    if (!by_endpoint && port.given() && (port.integer < 0 || port.integer > 65535))
        return invalid_value(raw, OptionId::master_port);
    config.endpoint = by_endpoint ? raw[OptionId::rdzv_endpoint].text
                                  : raw[OptionId::master_addr].text + ":" +
                                        (port.given() ? std::to_string(port.integer) : static_default_port);
    const OptionId origin = by_endpoint ? OptionId::rdzv_endpoint : OptionId::master_addr;
    const Endpoint endpoint = parse_endpoint(config.endpoint);
    if (!endpoint.problem.empty()) return invalid_value(raw, origin, endpoint.problem);
    config.host = endpoint.host;
    config.port = endpoint.port;
    BOOST_OUTCOME_TRY(check_static_port(raw, config, by_endpoint ? origin : OptionId::master_port));
    const Setting& rank = raw[OptionId::node_rank];
    if (rank.integer < 0 || rank.integer >= config.max_nodes)
        return invalid_value(raw, OptionId::node_rank,
                             "the job has " + std::to_string(config.max_nodes) + " node(s), counted from 0");
    config.node_rank = static_cast<int>(rank.integer);
    config.endpoint_given = by_endpoint || raw[OptionId::master_addr].given();
    return boost::outcome_v2::success();
}

Result<void> resolve_c10d(const RawArgs& raw, RendezvousConfig& config) {
    config.node_rank_given = raw[OptionId::node_rank].given() && config.max_nodes > 1;
    if (config.node_rank_given)
        config.node_rank = static_cast<int>(
            std::clamp<std::int64_t>(raw[OptionId::node_rank].integer, -1, std::numeric_limits<int>::max()));
    config.endpoint = raw[OptionId::rdzv_endpoint].text;
    config.endpoint_given = !config.endpoint.empty();
    if (config.conf.contains("store_type") && config.conf.at("store_type") == "file") {
        if (config.max_nodes > 1)
            return wrong_value(option(OptionId::rdzv_conf), raw[OptionId::rdzv_conf].source,
                               "store_type=file: several nodes cannot meet in a file; leave it out, and the node that "
                               "the endpoint names hosts the store");
        config.host = config.endpoint;
        return boost::outcome_v2::success();
    }
    config.host = "localhost";
    config.port = c10d_default_port;
    if (!config.endpoint_given) return boost::outcome_v2::success();
    const Endpoint endpoint = parse_endpoint(config.endpoint);
    if (!endpoint.problem.empty()) return invalid_value(raw, OptionId::rdzv_endpoint, endpoint.problem);
    config.host = endpoint.host;
    config.port = endpoint.port.value_or(c10d_default_port);
    return boost::outcome_v2::success();
}

int hex_digit(char c) {
    return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
}

/// The 128-bit number that a UUID stands for, in decimal, as torchrun names a run without an id.
std::string uuid_as_decimal(const std::string& uuid) {
    std::string reversed = "0";  // decimal digits, least significant first
    for (const char c : uuid) {
        if (c == '-') continue;
        int carry = hex_digit(c);
        for (char& digit : reversed) {
            const int value = (digit - '0') * 16 + carry;
            digit = static_cast<char>('0' + value % 10);
            carry = value / 10;
        }
        for (; carry > 0; carry /= 10) reversed += static_cast<char>('0' + carry % 10);
    }
    return {reversed.rbegin(), reversed.rend()};
}

void resolve_run_id(const RawArgs& raw, const HostFacts& host, RendezvousConfig& config, std::vector<Notice>& notices) {
    config.run_id = raw[OptionId::rdzv_id].text;
    if (!config.run_id.empty()) return;
    config.run_id = uuid_as_decimal(host.random_uuid);
    warn(notices, "config has no run_id, generated a random run_id: " + config.run_id);
}

/// torchrun's words (contract 2.2).
void warn_about_unused(const RawArgs& raw, const RendezvousConfig& config, std::vector<Notice>& notices) {
    if (config.kind == RendezvousKind::static_ranks) return;
    // With several nodes a cpprun agent that completes the round honours it.
    if (raw[OptionId::node_rank].integer != 0 && config.max_nodes == 1)
        warn(notices, "node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=c10d.");
    if (config.endpoint.empty())
        warn(notices, "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.");
}

bool node_count_fits(const std::optional<std::int64_t>& count) {
    return count && *count >= 1 && *count <= std::numeric_limits<int>::max();
}

}  // namespace

Result<NodeRange> parse_node_range(const RawArgs& raw) {
    const std::string& text = raw[OptionId::nnodes].text;
    const std::size_t colon = text.find(':');
    if (colon != std::string::npos && text.find(':', colon + 1) != std::string::npos)
        return invalid_value(raw, OptionId::nnodes, "not in \"MIN:MAX\" format");
    const auto min = parse_python_int(std::string_view(text).substr(0, colon));
    const auto max = colon == std::string::npos ? min : parse_python_int(std::string_view(text).substr(colon + 1));
    if (!min || !max) return invalid_value(raw, OptionId::nnodes, "not a whole number");
    if (!node_count_fits(min) || !node_count_fits(max) || *min > *max)
        return invalid_value(raw, OptionId::nnodes, "min_nodes must be > 0 and <= max_nodes");
    return NodeRange{static_cast<int>(*min), static_cast<int>(*max)};
}

Result<RendezvousConfig> resolve_rendezvous(const RawArgs& raw, NodeRange nodes, const HostFacts& host,
                                            std::vector<Notice>& notices) {
    RendezvousConfig config;
    config.min_nodes = nodes.min;
    config.max_nodes = nodes.max;
    config.standalone = raw[OptionId::standalone].on();
    if (!raw[OptionId::local_addr].text.empty()) config.local_addr = raw[OptionId::local_addr].text;
    config.rank_order = rank_order(raw[OptionId::rank_order].text);
    BOOST_OUTCOME_TRY(resolve_patience(raw, config));
    const bool local = config.standalone || is_plain_single_node(raw, nodes);
    if (!local) {
        BOOST_OUTCOME_TRY(config.kind, parse_backend(raw));
    }
    BOOST_OUTCOME_TRY(resolve_conf(raw, config, notices));
    if (local) {
        take_local_endpoint(config, host);
    } else {
        BOOST_OUTCOME_TRY(config.kind == RendezvousKind::c10d ? resolve_c10d(raw, config)
                                                              : resolve_static(raw, config));
        resolve_run_id(raw, host, config, notices);
    }
    // Static always waits for the largest number of nodes (contract 2.3).
    if (config.kind == RendezvousKind::static_ranks) config.min_nodes = config.max_nodes;
    warn_about_unused(raw, config, notices);
    return config;
}

}  // namespace cpprun
