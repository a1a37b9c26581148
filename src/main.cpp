// SPDX-License-Identifier: BSD-3-Clause
// argv in, exit code out.
#include "cli/command_line.hpp"
#include "launch/exit_code.hpp"
#include "launch/launch.hpp"
#include "launch/probe_host.hpp"
#include "launch/run_report.hpp"
#include "launch/standard_streams.hpp"
#include "runtime/devices/probe_devices.hpp"
#include "runtime/diagnostics.hpp"
#include "runtime/os/disk_lookup.hpp"
#include "runtime/os/signal_source.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace cpprun {
namespace {

int show(const TextOutput& output) {
    const bool written = std::fwrite(output.text.data(), 1, output.text.size(), stdout) == output.text.size();
    return written && std::fflush(stdout) == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
    const SignalInheritance signals = hold_signals();
    open_missing_standard_streams();
    const HostFacts host = probe_host(argc > 0 ? argv[0] : nullptr);
    const std::vector<std::string> arguments(argc > 0 ? argv + 1 : argv, argv + argc);
    const Result<Invocation> invocation = parse_command_line(arguments, host, DiskLookup{}, [&host](bool ask_drivers) {
        return probe_devices(ask_drivers ? ProbeDepth::drivers : ProbeDepth::files, probe_roots(host.environment));
    });
    if (!invocation) {
        report_error(invocation.error(), host.program_name);
        return exit_code(invocation.error().kind);
    }
    if (const auto* output = std::get_if<TextOutput>(&invocation.value())) return show(*output);
    const auto& request = std::get<LaunchRequest>(invocation.value());
    set_log_level(request.config.log_level);
    set_color(request.config.logs.color);
    return launch(request.config, request.notices, host, signals);
}

}  // namespace
}  // namespace cpprun

int main(int argc, char** argv) {
    try {
        return cpprun::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "cpprun: internal error: %s\n", error.what());
        return 1;
    }
}
