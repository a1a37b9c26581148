// SPDX-License-Identifier: BSD-3-Clause
#include "launch/store_service.hpp"

#include "runtime/agent/listen_options.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/os/descriptor_limit.hpp"
#include "runtime/store/store_host.hpp"

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>

namespace cpprun {

Result<void> serve_store(const LaunchConfig& config, const SignalInheritance& signals, StoreLog complain) {
    raise_descriptor_limit();
    BOOST_OUTCOME_TRY(const auto store, StoreHost::start(listen_spec(config.store, config.rendezvous.port.value_or(0)),
                                                         std::move(complain)));
    std::printf("serving a store on port %u\n", static_cast<unsigned>(store->port()));
    std::fflush(stdout);
    boost::asio::io_context io(1);
    const SignalSource source(io, signals, [&](const ReceivedSignal& signal) {
        if (signal.signo != SIGTERM && signal.signo != SIGINT && signal.signo != SIGHUP && signal.signo != SIGQUIT)
            return;
        const StoreStatistics now = store->statistics();
        log(LogLevel::info,
            fmt::format("signal {}{}: the store ends, with {} connections and {} keys", signal.signo,
                        signal.sender.empty() ? "" : " from " + signal.sender, now.connections, now.keys));
        io.stop();
    });
    io.run();
    return boost::outcome_v2::success();
}

}  // namespace cpprun
