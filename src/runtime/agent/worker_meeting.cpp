// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/agent/worker_meeting.hpp"

#include "runtime/agent/listen_options.hpp"

#include <boost/asio/ip/address.hpp>

namespace cpprun {
namespace {

std::optional<boost::asio::ip::address> loopback_address(const std::string& host) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    if (error || !address.is_loopback()) return std::nullopt;
    return address;
}

/// The store's own idea of loopback is 127.0.0.1 and ::1; 127.0.0.5 must be named.
bool is_unusual_loopback(const std::string& host) {
    const auto address = loopback_address(host);
    return address && address->is_v4() && *address != boost::asio::ip::address_v4::loopback();
}

std::string master_host(const RendezvousConfig& rendezvous) {
    if (rendezvous.kind == RendezvousKind::static_ranks) return rendezvous.host;
    // One node alone: an address that every worker reaches without any name service.
    return rendezvous.local_addr.value_or("127.0.0.1");
}

ListenSpec listen_at(const LaunchConfig& config, const std::string& host, PortRange port) {
    const RendezvousConfig& rendezvous = config.rendezvous;
    const bool loopback = host == "localhost" || loopback_address(host).has_value();
    const bool local = loopback && !rendezvous.endpoint_given && !rendezvous.local_addr;
    ListenSpec spec = listen_spec(config.store, port);
    if (!local) return spec;
    spec.scope = ListenScope::loopback;
    if (is_unusual_loopback(host) && !config.store.bind) spec.bind_addresses = {host};
    return spec;
}

// With the option that chose the address.
Error named(Error error, const LaunchConfig& config) {
    if (config.store.bind) error.message = "argument --store-bind/--store_bind: " + error.message;
    return error;
}

}  // namespace

WorkerMeeting::WorkerMeeting(const LaunchConfig& config)
    : agent_store_(config.worker_store == WorkerStore::agent), host_(master_host(config.rendezvous)) {
    // Under c10d the endpoint's port belongs to the rendezvous; workers always meet elsewhere (contract 3.2).
    fixed_port_ = config.rendezvous.kind == RendezvousKind::static_ranks && config.rendezvous.port.value_or(0) != 0;
    ports_ = fixed_port_ ? PortRange(*config.rendezvous.port) : config.store.worker_ports;
}

Result<std::unique_ptr<WorkerMeeting>> WorkerMeeting::open(const LaunchConfig& config, StoreLog complain) {
    std::unique_ptr<WorkerMeeting> meeting(new WorkerMeeting(config));
    if (meeting->agent_store_) {
        auto store = StoreHost::start(listen_at(config, meeting->host_, meeting->ports_), std::move(complain));
        if (!store) return named(store.error(), config);
        meeting->store_ = std::move(store).value();
    } else {
        BOOST_OUTCOME_TRY(meeting->reserve());
    }
    return meeting;
}

Result<MasterAddress> WorkerMeeting::begin_attempt() {
    if (!fresh_ && store_) store_->reset();
    if (!fresh_ && !store_ && !fixed_port_) {
        BOOST_OUTCOME_TRY(reserve());
    }
    fresh_ = false;
    return MasterAddress{host_, store_ ? store_->port() : reserved_->port, agent_store_};
}

Result<void> WorkerMeeting::reserve() {
    reserved_.reset();
    BOOST_OUTCOME_TRY(reserved_, reserve_port(ports_));
    return boost::outcome_v2::success();
}

}  // namespace cpprun
