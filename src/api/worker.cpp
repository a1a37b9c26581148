// SPDX-License-Identifier: BSD-3-Clause
#include <cpprun/worker.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <typeinfo>
#include <unistd.h>

namespace cpprun {
namespace {

std::string quoted(const char* name, std::string_view value) {
    return std::string(name) + "=" + std::string(value);
}

const char* required(const EnvironmentLookup& lookup, const char* name) {
    if (const char* value = lookup(name)) return value;
    throw PlaceError(std::string(name) +
                     " is not set: start this program by a launcher, as in "
                     "`cpprun --nproc-per-node=2 PROGRAM`");
}

int number(const char* name, std::string_view text, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        throw PlaceError(quoted(name, text) + ": not a whole number");
    }
    if (value < least || value > most) {
        throw PlaceError(quoted(name, text) + ": not in " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
}

constexpr int any = std::numeric_limits<int>::max();

int optional_number(const EnvironmentLookup& lookup, const char* name, int otherwise, int least, int most) {
    const char* text = lookup(name);
    return text == nullptr ? otherwise : number(name, text, least, most);
}

std::string optional_text(const EnvironmentLookup& lookup, const char* name) {
    const char* text = lookup(name);
    return text == nullptr ? std::string() : std::string(text);
}

// libstdc++ throws this wrapper for std::throw_with_nested; what it wraps is what the program named.
std::string without_nesting(std::string name) {
    constexpr std::string_view wrapper = "std::_Nested_exception<";
    if (name.compare(0, wrapper.size(), wrapper) != 0) return name;
    return name.substr(wrapper.size(), name.size() - wrapper.size() - 1);
}

std::string type_name(const std::exception& error) {
    const char* mangled = typeid(error).name();
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                           &std::free);
    return without_nesting(status == 0 ? name.get() : mangled);
}

struct Description {
    std::string message;  // the outermost exception, in the form of Python: "Type: text"
    std::string details;  // the same and the exceptions nested in it, outermost first, one line each
};

void describe(const std::exception& error, Description& so_far) {
    const std::string line = type_name(error) + ": " + error.what();
    if (so_far.message.empty()) so_far.message = line;
    so_far.details += (so_far.details.empty() ? "" : "caused by ") + line + "\n";
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception& cause) {
        describe(cause, so_far);
    } catch (...) {
        so_far.details += "caused by an exception that is no std::exception\n";
    }
}

Description describe_current_exception() {
    Description description;
    try {
        throw;
    } catch (const std::exception& error) {
        describe(error, description);
    } catch (...) {
        description = {"an exception that is no std::exception", "an exception that is no std::exception\n"};
    }
    return description;
}

std::int64_t epoch_seconds_now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

bool write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// Through a file beside it: the launcher never reads half a file, also when this process is killed meanwhile.
bool replace_file(const std::string& path, std::string_view bytes) {
    const std::string beside = path + "." + std::to_string(::getpid());
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) return false;
    const bool written = write_all(descriptor, bytes);
    const bool closed = ::close(descriptor) == 0;
    if (written && closed && std::rename(beside.c_str(), path.c_str()) == 0) return true;
    const int reason = errno;
    ::unlink(beside.c_str());
    errno = reason;
    return false;
}

void record_current_exception() {
    const Description description = describe_current_exception();
    std::fprintf(stderr, "%s", description.details.c_str());
    const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (path == nullptr || *path == '\0') return;
    if (!write_error_file(path, description.message, description.details, epoch_seconds_now())) {
        std::perror(path);
    }
}

}  // namespace

Place place_from(const EnvironmentLookup& lookup) {
    Place place;
    place.world_size = number("WORLD_SIZE", required(lookup, "WORLD_SIZE"), 1, any);
    place.rank = number("RANK", required(lookup, "RANK"), 0, place.world_size - 1);
    place.local_world_size = number("LOCAL_WORLD_SIZE", required(lookup, "LOCAL_WORLD_SIZE"), 1, place.world_size);
    place.local_rank = number("LOCAL_RANK", required(lookup, "LOCAL_RANK"), 0, place.local_world_size - 1);
    place.master_addr = required(lookup, "MASTER_ADDR");
    if (place.master_addr.empty()) throw PlaceError("MASTER_ADDR is empty: a host name or address is needed");
    place.master_port = static_cast<std::uint16_t>(number("MASTER_PORT", required(lookup, "MASTER_PORT"), 1, 65535));
    place.group_world_size = optional_number(lookup, "GROUP_WORLD_SIZE", 1, 1, any);
    place.group_rank = optional_number(lookup, "GROUP_RANK", 0, 0, place.group_world_size - 1);
    place.role_world_size = optional_number(lookup, "ROLE_WORLD_SIZE", place.world_size, 1, place.world_size);
    place.role_rank = optional_number(lookup, "ROLE_RANK", place.rank, 0, place.role_world_size - 1);
    place.role_name = optional_text(lookup, "ROLE_NAME");
    // PyTorch takes this very spelling for yes and all else for no.
    place.agent_store = optional_text(lookup, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    place.restart_count = optional_number(lookup, "TORCHELASTIC_RESTART_COUNT", 0, 0, any);
    place.max_restarts = optional_number(lookup, "TORCHELASTIC_MAX_RESTARTS", 0, 0, any);
    place.run_id = optional_text(lookup, "TORCHELASTIC_RUN_ID");
    return place;
}

Place place_from_environment() {
    return place_from([](const char* name) -> const char* { return std::getenv(name); });
}

bool send_heartbeat() noexcept {
    const char* path = std::getenv("CPPRUN_HEARTBEAT_SOCKET");
    sockaddr_un address{};
    if (path == nullptr || *path == '\0' || std::strlen(path) >= sizeof address.sun_path) return false;
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path);
    // Made anew each time: a child of the worker, or another thread, may be at it too.
    const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) return false;
    const ssize_t sent =
        ::sendto(socket, "", 0, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(socket);
    return sent == 0;
}

bool write_error_file(const std::string& path, const std::string& message, const std::string& details,
                      std::int64_t epoch_seconds) {
    const nlohmann::ordered_json extra = {{"py_callstack", details}, {"timestamp", std::to_string(epoch_seconds)}};
    const nlohmann::ordered_json file = {{"message", {{"message", message}, {"extraInfo", extra}}}};
    return replace_file(path, file.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int run_recorded(const std::function<int()>& body) noexcept {
    try {
        return body();
    } catch (...) {
        try {
            record_current_exception();
        } catch (...) {
            std::fputs("an exception, and no memory to describe it\n", stderr);
        }
        return 1;
    }
}

}  // namespace cpprun
