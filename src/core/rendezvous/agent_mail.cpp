// SPDX-License-Identifier: BSD-3-Clause
#include "core/rendezvous/agent_mail.hpp"

#include "core/text/json_fields.hpp"
#include "core/text/whole_number.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace cpprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t message_bytes_max = 16384;
constexpr std::size_t names_max = 8;
constexpr std::chrono::milliseconds patience_max = std::chrono::hours(24 * 365);
// No host name is longer; a byte takes six of the message at most, so that eight fit.
constexpr std::size_t name_bytes_max = 255;
// A round of more nodes than this is a broken or hostile message.
constexpr std::int64_t world_max = 1'000'000;
// No host writes as many, and a number that counts on from here stays one.
constexpr std::int64_t mails_max = std::int64_t{1} << 53U;

std::string written(Json message, const char* kind, std::int64_t serial) {
    message["v"] = 1;
    message["kind"] = kind;
    message["serial"] = serial;
    return message.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json names_of(const std::vector<NodeId>& nodes) {
    Json names = Json::array();
    for (const NodeId& node : nodes) {
        if (names.size() == names_max) break;
        if (node.addr.size() <= name_bytes_max) names.push_back(node_text(node));
    }
    return names;
}

std::vector<NodeId> nodes_at(const Json& message, const char* name) {
    std::vector<NodeId> nodes;
    const auto found = message.find(name);
    if (found == message.end() || !found->is_array()) return nodes;
    for (const Json& text : *found) {
        if (!text.is_string() || nodes.size() == names_max) continue;
        if (const auto node = parse_node(text.get<std::string>())) nodes.push_back(*node);
    }
    return nodes;
}

struct Writer {
    std::int64_t serial;

    std::string operator()(const RoundFormed& formed) const {
        Json message;
        message["round"] = formed.members->round;
        message["rank"] = formed.rank;
        message["world"] = formed.members->by_rank.size();
        message["mixed"] = formed.mixed;
        NodeId first = formed.members->by_rank.front();
        first.addr.resize(std::min(first.addr.size(), name_bytes_max));
        message["first"] = node_text(first);
        return written(std::move(message), "formed", serial);
    }
    std::string operator()(const JoinEnded& ended) const {
        static constexpr const char* whys[] = {"closed", "spare", "timeout"};
        Json message;
        message["why"] = whys[static_cast<std::size_t>(ended.why)];
        return written(std::move(message), "ended", serial);
    }
    std::string operator()(const RestartNeeded& restart) const {
        static constexpr const char* whys[] = {"newcomers", "lost", "left_out"};
        Json message;
        message["why"] = whys[static_cast<std::size_t>(restart.why)];
        message["nodes"] = names_of(restart.nodes);
        message["count"] = restart.nodes.size();
        return written(std::move(message), "restart", serial);
    }
    std::string operator()(const RunClosed& /*closed*/) const { return written(Json::object(), "closed", serial); }
    std::string operator()(const Reinstated& /*back*/) const { return written(Json::object(), "reinstated", serial); }
    std::string operator()(const NotAMember& /*stranger*/) const { return written(Json::object(), "stranger", serial); }
    std::string operator()(const JobFailed& failed) const {
        Json message;
        message["text"] = failed.text.substr(0, 2048);
        return written(std::move(message), "failed", serial);
    }
    std::string operator()(const FailureReport& report) const {
        Json message;
        message["text"] = report.text.substr(0, failure_report_bytes_max);
        return written(std::move(message), "report", serial);
    }
    std::string operator()(const PeerWord& word) const {
        Json message;
        message["about"] = word.kind.substr(0, peer_name_bytes_max);
        message["host"] = word.host.substr(0, peer_name_bytes_max);
        message["from"] = word.from.substr(0, peer_name_bytes_max);
        message["text"] = word.text.substr(0, failure_report_bytes_max);
        return written(std::move(message), "word", serial);
    }
    std::string operator()(const RoundProgress& round) const {
        const JoinProgress& progress = round.progress;
        Json message;
        message["here"] = progress.here;
        message["spare"] = progress.spare;
        message["waiting"] = progress.waiting;
        message["nodes"] = Json::array();
        for (const std::string& name : progress.nodes)
            if (message["nodes"].size() < names_max) message["nodes"].push_back(name.substr(0, name_bytes_max));
        if (progress.last_call) message["last_call_ms"] = progress.last_call->count();
        if (progress.gives_up_in) message["gives_up_ms"] = progress.gives_up_in->count();
        return written(std::move(message), "progress", serial);
    }
};

std::optional<HostMail> formed(const NodeId& to, const Json& message) {
    const auto round = integer_field(message, "round");
    const auto rank = integer_field(message, "rank");
    const auto world = integer_field(message, "world");
    const auto first = parse_node(text_field(message, "first").value_or(""));
    if (!round || !rank || !world || !first) return std::nullopt;
    if (*world < 1 || *world > world_max || *rank < 0 || *rank >= *world) return std::nullopt;
    auto members = std::make_shared<RoundMembers>();
    members->round = *round;
    members->by_rank.resize(static_cast<std::size_t>(*world));
    members->by_rank.front() = *first;
    members->by_rank[static_cast<std::size_t>(*rank)] = to;
    const auto mixed = message.find("mixed");
    return RoundFormed{to, *rank, std::move(members),
                       mixed == message.end() || !mixed->is_boolean() || mixed->get<bool>()};
}

std::optional<HostMail> restart(const NodeId& to, const Json& message) {
    const std::string why = text_field(message, "why").value_or("");
    RestartNeeded needed;
    needed.node = to;
    needed.nodes = nodes_at(message, "nodes");
    const auto count = integer_field(message, "count").value_or(0);
    if (count > static_cast<std::int64_t>(needed.nodes.size()) && count <= world_max)
        needed.nodes.resize(static_cast<std::size_t>(count));
    if (why == "newcomers") {
        needed.why = RestartNeeded::Why::newcomers;
    } else if (why == "lost") {
        needed.why = RestartNeeded::Why::lost;
    } else if (why == "left_out") {
        needed.why = RestartNeeded::Why::left_out;
    } else {
        return std::nullopt;
    }
    return needed;
}

std::optional<HostMail> ended(const NodeId& to, const Json& message) {
    const std::string why = text_field(message, "why").value_or("");
    if (why == "closed") return JoinEnded{to, JoinEnded::Why::closed};
    if (why == "spare") return JoinEnded{to, JoinEnded::Why::spare_ended};
    if (why == "timeout") return JoinEnded{to, JoinEnded::Why::timed_out};
    return std::nullopt;
}

HostMail progress_of(const Json& message) {
    RoundProgress round;
    round.progress.here = integer_field(message, "here").value_or(0);
    const auto flag = [&](const char* name) {
        const auto found = message.find(name);
        return found != message.end() && found->is_boolean() && found->get<bool>();
    };
    round.progress.spare = flag("spare");
    round.progress.waiting = flag("waiting");
    const auto names = message.find("nodes");
    if (names != message.end() && names->is_array())
        for (const Json& name : *names)
            if (name.is_string() && round.progress.nodes.size() < names_max)
                round.progress.nodes.push_back(name.get<std::string>());
    if (const auto left = integer_field(message, "last_call_ms"))
        round.progress.last_call = std::chrono::milliseconds(*left);
    if (const auto left = integer_field(message, "gives_up_ms"))
        round.progress.gives_up_in = std::chrono::milliseconds(*left);
    return round;
}

}  // namespace

std::string node_text(const NodeId& node) {
    return fmt::format("{}_{}_{}", node.addr, node.pid, node.local_id);
}

std::optional<NodeId> parse_node(std::string_view text) {
    const auto second = text.rfind('_');
    if (second == std::string_view::npos || second == 0) return std::nullopt;
    const auto first = text.rfind('_', second - 1);
    if (first == std::string_view::npos) return std::nullopt;
    const auto pid = whole_number(text.substr(first + 1, second - first - 1));
    const auto local = whole_number(text.substr(second + 1));
    if (!pid || !local) return std::nullopt;
    return NodeId{std::string(text.substr(0, first)), *pid, *local};
}

std::string encode_wish(const MembershipEvent& event, std::int64_t serial, std::optional<std::int64_t> reads) {
    Json message = Json::object();
    if (reads) message["reads"] = *reads;
    if (const auto* join = std::get_if<JoinWish>(&event)) {
        if (join->node_rank) message["node_rank"] = *join->node_rank;
        if (join->after_round) message["after_round"] = *join->after_round;
        if (join->patience) message["patience_ms"] = join->patience->count();
        return written(std::move(message), "join", serial);
    }
    if (const auto* stay = std::get_if<StayWish>(&event)) {
        message["without"] = names_of(stay->without);
        return written(std::move(message), "stay", serial);
    }
    return written(std::move(message), std::holds_alternative<CloseWish>(event) ? "close" : "leave", serial);
}

std::string encode_sign_of_life(std::int64_t serial, std::optional<std::int64_t> reads) {
    Json message = Json::object();
    if (reads) message["reads"] = *reads;
    return written(std::move(message), "alive", serial);
}

std::optional<AgentWish> decode_wish(const NodeId& from, std::string_view text) {
    const Json message = parse_foreign_json<Json>(text, message_bytes_max);
    if (message.is_null()) return std::nullopt;
    const std::string kind = text_field(message, "kind").value_or("");
    AgentWish wish;
    wish.reads = integer_field(message, "reads");
    if (wish.reads && (*wish.reads < 0 || *wish.reads > mails_max)) wish.reads.reset();
    if (kind == "join") {
        JoinWish join{from, integer_field(message, "node_rank"), integer_field(message, "after_round"), {}};
        // A year is more than anybody means, and far from what a clock can hold.
        const auto patience = integer_field(message, "patience_ms");
        if (patience && *patience > 0 && *patience < patience_max.count())
            join.patience = std::chrono::milliseconds(*patience);
        wish.event = std::move(join);
    } else if (kind == "leave") {
        wish.event = LeaveWish{from};
    } else if (kind == "close") {
        wish.event = CloseWish{};
    } else if (kind == "stay") {
        wish.event = StayWish{from, nodes_at(message, "without")};
    } else if (kind != "alive") {
        return std::nullopt;
    }
    return wish;
}

std::string encode_mail(const HostMail& mail, std::int64_t serial) {
    return std::visit(Writer{serial}, mail);
}

std::optional<HostMail> decode_mail(const NodeId& to, std::string_view text) {
    const Json message = parse_foreign_json<Json>(text, message_bytes_max);
    if (message.is_null()) return std::nullopt;
    const std::string kind = text_field(message, "kind").value_or("");
    if (kind == "formed") return formed(to, message);
    if (kind == "ended") return ended(to, message);
    if (kind == "restart") return restart(to, message);
    if (kind == "closed") return RunClosed{to};
    if (kind == "reinstated") return Reinstated{to};
    if (kind == "progress") return progress_of(message);
    if (kind == "stranger") return NotAMember{};
    if (kind == "report")
        return FailureReport{text_field(message, "text").value_or("").substr(0, failure_report_bytes_max)};
    if (kind == "word") {
        const auto field = [&](const char* name, std::size_t bytes_max) {
            return text_field(message, name).value_or("").substr(0, bytes_max);
        };
        return PeerWord{field("about", peer_name_bytes_max), field("host", peer_name_bytes_max),
                        field("from", peer_name_bytes_max), field("text", failure_report_bytes_max)};
    }
    if (kind == "failed") return JobFailed{text_field(message, "text").value_or("")};
    return std::nullopt;
}

}  // namespace cpprun
