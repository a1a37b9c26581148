// SPDX-License-Identifier: BSD-3-Clause
#include "cpprun/store.hpp"

#include "runtime/store/store_host.hpp"
#include "runtime/store/tcp_store_client.hpp"

#include <charconv>
#include <cstdlib>

namespace cpprun {
namespace {

StoreError::Kind kind_of(StoreFailure::Kind kind) {
    switch (kind) {
        case StoreFailure::Kind::timeout:
            return StoreError::Kind::timeout;
        case StoreFailure::Kind::connection:
            return StoreError::Kind::connection;
        case StoreFailure::Kind::protocol:
            return StoreError::Kind::protocol;
        case StoreFailure::Kind::queue_empty:
            return StoreError::Kind::queue_empty;
        case StoreFailure::Kind::invalid:
            return StoreError::Kind::invalid;
    }
    return StoreError::Kind::protocol;
}

template <class T>
T value_or_throw(StoreResult<T> result) {
    if (!result) throw StoreError(kind_of(result.error().kind), result.error().message);
    if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

std::string environment_variable(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) throw StoreError(StoreError::Kind::invalid, std::string(name) + " is not set");
    return value;
}

}  // namespace

// --- TcpStore -------------------------------------------------------------------------------------------------------

struct TcpStore::Impl {
    TcpStoreOptions options;
    std::unique_ptr<TcpStoreClient> client;
};

TcpStore::TcpStore(TcpStoreOptions options) : impl_(std::make_unique<Impl>()) {
    impl_->options = std::move(options);
    StoreClientSettings settings;
    settings.host = impl_->options.host;
    settings.port = impl_->options.port;
    settings.connect_timeout = impl_->options.connect_timeout;
    settings.reply_timeout = impl_->options.reply_timeout;
    settings.on_retry = impl_->options.on_retry;
    impl_->client = value_or_throw(TcpStoreClient::connect(std::move(settings)));
}

std::unique_ptr<TcpStore> TcpStore::from_environment() {
    TcpStoreOptions options;
    options.host = environment_variable("MASTER_ADDR");
    const std::string port = environment_variable("MASTER_PORT");
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), options.port);
    if (error != std::errc() || end != port.data() + port.size() || options.port == 0) {
        throw StoreError(StoreError::Kind::invalid, "MASTER_PORT='" + port + "' is no port");
    }
    return std::make_unique<TcpStore>(std::move(options));
}

TcpStore::TcpStore(TcpStore&&) noexcept = default;
TcpStore& TcpStore::operator=(TcpStore&&) noexcept = default;
TcpStore::~TcpStore() = default;

void TcpStore::set(std::string_view key, std::string_view value) {
    value_or_throw(impl_->client->set(key, value));
}

std::string TcpStore::get(std::string_view key, Milliseconds timeout) {
    return value_or_throw(impl_->client->get(key, timeout));
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t difference) {
    return value_or_throw(impl_->client->add(key, difference));
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    return value_or_throw(impl_->client->compare_set(key, expected, desired));
}

bool TcpStore::check(const std::vector<std::string>& keys) {
    return value_or_throw(impl_->client->check(keys));
}

void TcpStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    value_or_throw(impl_->client->wait(keys, timeout));
}

bool TcpStore::remove(std::string_view key) {
    return value_or_throw(impl_->client->remove(key));
}

std::int64_t TcpStore::number_of_keys() {
    return value_or_throw(impl_->client->number_of_keys());
}

void TcpStore::append(std::string_view key, std::string_view value) {
    value_or_throw(impl_->client->append(key, value));
}

std::vector<std::string> TcpStore::multi_get(const std::vector<std::string>& keys, Milliseconds timeout) {
    return value_or_throw(impl_->client->multi_get(keys, timeout));
}

void TcpStore::multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
    value_or_throw(impl_->client->multi_set(keys, values));
}

void TcpStore::queue_push(std::string_view key, std::string_view value) {
    value_or_throw(impl_->client->queue_push(key, value));
}

std::string TcpStore::queue_pop(std::string_view key, Milliseconds timeout) {
    return value_or_throw(impl_->client->queue_pop(key, timeout));
}

std::optional<std::string> TcpStore::try_queue_pop(std::string_view key) {
    return value_or_throw(impl_->client->try_queue_pop(key));
}

std::int64_t TcpStore::queue_length(std::string_view key) {
    return value_or_throw(impl_->client->queue_length(key));
}

std::vector<std::string> TcpStore::list_keys() {
    return value_or_throw(impl_->client->list_keys());
}

void TcpStore::barrier(std::string_view key, std::int64_t size, Milliseconds timeout) {
    value_or_throw(impl_->client->barrier(key, size, timeout));
}

TcpStore::Milliseconds TcpStore::default_timeout() const {
    return impl_->options.timeout;
}

std::unique_ptr<TcpStore> TcpStore::clone() const {
    return std::make_unique<TcpStore>(impl_->options);
}

std::int64_t TcpStore::announce_worker() {
    return value_or_throw(impl_->client->announce_worker());
}

void TcpStore::wait_for_workers(std::int64_t count, Milliseconds timeout) {
    value_or_throw(impl_->client->wait_for_workers(count, timeout));
}

// --- PrefixStore ----------------------------------------------------------------------------------------------------

namespace {

std::string joined(const std::string& prefix, std::string_view key) {
    return prefix + "/" + std::string(key);
}

std::vector<std::string> joined(const std::string& prefix, const std::vector<std::string>& keys) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(joined(prefix, key));
    return names;
}

}  // namespace

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> base)
    : prefix_(std::move(prefix)), base_(std::move(base)) {}

void PrefixStore::set(std::string_view key, std::string_view value) {
    base_->set(joined(prefix_, key), value);
}

std::string PrefixStore::get(std::string_view key, Milliseconds timeout) {
    return base_->get(joined(prefix_, key), timeout);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t difference) {
    return base_->add(joined(prefix_, key), difference);
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    return base_->compare_set(joined(prefix_, key), expected, desired);
}

bool PrefixStore::check(const std::vector<std::string>& keys) {
    return base_->check(joined(prefix_, keys));
}

void PrefixStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    base_->wait(joined(prefix_, keys), timeout);
}

bool PrefixStore::remove(std::string_view key) {
    return base_->remove(joined(prefix_, key));
}

std::int64_t PrefixStore::number_of_keys() {
    return base_->number_of_keys();
}

void PrefixStore::append(std::string_view key, std::string_view value) {
    base_->append(joined(prefix_, key), value);
}

std::vector<std::string> PrefixStore::multi_get(const std::vector<std::string>& keys, Milliseconds timeout) {
    return base_->multi_get(joined(prefix_, keys), timeout);
}

void PrefixStore::multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
    base_->multi_set(joined(prefix_, keys), values);
}

void PrefixStore::queue_push(std::string_view key, std::string_view value) {
    base_->queue_push(joined(prefix_, key), value);
}

std::string PrefixStore::queue_pop(std::string_view key, Milliseconds timeout) {
    return base_->queue_pop(joined(prefix_, key), timeout);
}

std::optional<std::string> PrefixStore::try_queue_pop(std::string_view key) {
    return base_->try_queue_pop(joined(prefix_, key));
}

std::int64_t PrefixStore::queue_length(std::string_view key) {
    return base_->queue_length(joined(prefix_, key));
}

std::vector<std::string> PrefixStore::list_keys() {
    const std::string start = prefix_ + "/";
    std::vector<std::string> keys;
    for (std::string& key : base_->list_keys()) {
        if (key.starts_with(start)) keys.push_back(key.substr(start.size()));
    }
    return keys;
}

void PrefixStore::barrier(std::string_view key, std::int64_t size, Milliseconds timeout) {
    const std::string name(key);
    if (add(name + "/num_members", 1) >= size) set(name + "/last_member", "here");
    wait({name + "/last_member"}, timeout);
}

PrefixStore::Milliseconds PrefixStore::default_timeout() const {
    return base_->default_timeout();
}

// --- StoreServer ----------------------------------------------------------------------------------------------------

struct StoreServer::Impl {
    std::unique_ptr<StoreHost> host;
};

StoreServer::StoreServer(StoreServerOptions options) : impl_(std::make_unique<Impl>()) {
    ListenSpec spec;
    spec.scope = options.loopback_only ? ListenScope::loopback : ListenScope::all;
    spec.port = options.port;
    spec.bind_addresses = std::move(options.bind_addresses);
    spec.allow_cidrs = std::move(options.allow);
    spec.legacy = options.legacy;
    spec.threads = options.threads;
    spec.connections_max = options.connections_max;
    spec.memory_bytes_max = options.memory_bytes_max;
    StoreLog log;
    if (options.log) log = [hear = std::move(options.log)](StoreLogLevel, const std::string& line) { hear(line); };
    auto host = StoreHost::start(spec, std::move(log));
    if (!host) {
        throw StoreError(
            host.error().kind == ErrorKind::usage ? StoreError::Kind::invalid : StoreError::Kind::connection,
            host.error().message);
    }
    impl_->host = std::move(host).value();
}

StoreServer::StoreServer(StoreServer&&) noexcept = default;
StoreServer& StoreServer::operator=(StoreServer&&) noexcept = default;
StoreServer::~StoreServer() = default;

std::uint16_t StoreServer::port() const {
    return impl_->host->port();
}

void StoreServer::reset() {
    impl_->host->reset();
}

}  // namespace cpprun
