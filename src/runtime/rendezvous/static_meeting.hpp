// SPDX-License-Identifier: BSD-3-Clause
// --rdzv-backend=static with several nodes: ranks are given, node 0 hosts the store of agents and workers. Among
// cpprun's agents all restart together and each attempt meets an empty store; beside torchrun's each restarts alone.
#pragma once

#include "runtime/rendezvous/store_meeting.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

class StaticMeeting final : public StoreMeeting {
  public:
    StaticMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                  StoreLog complain);
    ~StaticMeeting() override;

    void enter_exit_barrier() override;

  private:
    Async<void> open() override;
    std::string words_name() const override { return std::to_string(rank()); }
    void opened() override;
    void join_again() override;
    boost::asio::awaitable<void> say_goodbye(RunResult result, std::function<void()> done) override;
    Async<void> check_identities();
    Async<void> take_rank();
    Async<void> first_attempt();
    boost::asio::awaitable<void> next_attempt(JoinRound wish, std::int64_t serial);
    Async<void> restart_together(std::shared_ptr<StoreLink> link, std::int64_t attempt);
    boost::asio::awaitable<void> wait_for_others(std::int64_t serial);
    boost::asio::awaitable<void> hear_news();
    boost::asio::awaitable<void> ask_after_host();
    void hear(const Json& entry);
    void lost_store(const StoreFailure& failed);
    void ready();

    void observe(const StoreEvent& event);
    void peer_written(std::uint64_t connection, const std::string& key, const std::string& value);
    void peer_closed(std::uint64_t connection);

    int nodes() const { return rendezvous().max_nodes; }
    int rank() const { return rendezvous().node_rank; }
    Milliseconds timeout() const;
    std::string attempt_key(const char* what, std::int64_t attempt) const;
    std::string waiting_for(const std::vector<int>& ranks) const;
    std::string card() const;

    bool all_cpprun_ = false;
    bool alone_told_ = false;
    bool lost_ = false;
    std::int64_t attempt_ = 0;
    RankRange ranks_;
    std::map<std::uint64_t, int> peers_;  ///< node 0: whose connection is which
    std::map<int, std::string> hosts_;    ///< by node rank, of cpprun's agents
};

}  // namespace cpprun
