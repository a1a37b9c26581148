// SPDX-License-Identifier: BSD-3-Clause
// --rdzv-backend=c10d with several nodes: the driver of MembershipMachine over a store that torchrun's agents may
// share.
#pragma once

#include "core/rendezvous/membership_machine.hpp"
#include "core/rendezvous/state_codec.hpp"
#include "runtime/rendezvous/host_desk.hpp"
#include "runtime/rendezvous/store_meeting.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

class C10dMeeting final : public StoreMeeting {
  public:
    C10dMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                StoreLog complain);
    ~C10dMeeting() override;

    void enter_exit_barrier() override;
    bool speaks_for_others() const override { return desk_ != nullptr; }

  private:
    Async<void> open() override;
    std::string words_name() const override { return node_text(me_); }
    void opened() override;
    void join_again() override;
    void wish_to_join();
    boost::asio::awaitable<void> count_restart(std::int64_t serial);
    boost::asio::awaitable<void> say_goodbye(RunResult result, std::function<void()> done) override;
    std::string why_not_host() const override { return hosted() == nullptr ? choice_.reason : std::string(); }
    Async<void> refuse_other_run();
    Async<void> introduce();
    boost::asio::awaitable<void> hear_news();
    boost::asio::awaitable<void> poll_state();
    boost::asio::awaitable<void> show_progress();
    void hear(const Json& entry);
    void tell_led(const HostMail& mail);

    void feed(MembershipEvent event);
    void feed_all(std::vector<MembershipEvent> events);
    template <class Command>
    void route(const Command& command);
    Async<void> be_led();
    boost::asio::awaitable<void> send_wish(MembershipEvent event);
    boost::asio::awaitable<void> read_mail();
    boost::asio::awaitable<void> show_life();
    boost::asio::awaitable<void> watch_lease();
    boost::asio::awaitable<void> tell_progress();
    void open_mail(const HostMail& mail);
    void obey(const ReadState& command);
    void obey(const SwapState& command);
    void obey(const WakeAt& command);
    void obey(const RoundFormed& command);
    void obey(const JoinEnded& command);
    void obey(const RestartNeeded& command);
    void obey(const RunClosed& command);
    void obey(const Reinstated& command);
    void obey(const FenceDue& command);
    void obey(const ClockSkewed& command);
    void obey(const NewcomersHeldBack& command);
    void obey(const RankWishesIgnored& command);
    boost::asio::awaitable<void> read_state();
    boost::asio::awaitable<void> swap_state(RendezvousState desired);
    void forget_old_rounds(const RoundMembers& newest);
    Result<std::optional<RendezvousState>> decode(const std::string& text);
    boost::asio::awaitable<void> read_rank_wishes();

    boost::asio::awaitable<void> take_place(std::shared_ptr<const RoundMembers> members, int rank, std::int64_t serial);
    Async<std::int64_t> count_change(std::int64_t round);
    bool end_over_changes(std::int64_t changes);
    Async<MasterAddress> find_master(std::shared_ptr<StoreLink> link, const RoundMembers& members, int rank);
    Async<MasterAddress> serve_workers();
    /// What was told in that round; none: nothing. Port 0: it makes no sense.
    Async<std::optional<MasterAddress>> published_master(std::shared_ptr<StoreLink> link, std::int64_t round);
    Async<std::optional<MasterAddress>> earlier_master(std::shared_ptr<StoreLink> link, const RoundMembers& members);
    Async<std::optional<MasterAddress>> master_still_there(std::shared_ptr<StoreLink> link, std::int64_t before);
    bool torchrun_among(const RoundMembers& members) const;
    std::chrono::steady_clock::time_point lease_of_state() const;
    bool stood_still() const;
    Milliseconds part_of_bound(int percent) const { return silent_after() * percent / 100; }
    boost::asio::awaitable<void> wait_for_others(std::shared_ptr<const RoundMembers> members, int rank,
                                                 std::int64_t serial);
    boost::asio::awaitable<void> judge_loss(std::vector<NodeId> nodes, std::int64_t serial);
    boost::asio::awaitable<void> tell_of_closing();
    boost::asio::awaitable<void> mend_links();
    void tell_of_change();

    static constexpr const char* state_prefix = "torch.rendezvous.";
    std::string state_key() const { return state_prefix + rendezvous().run_id; }
    std::string round_prefix(std::int64_t round) const { return state_key() + "." + std::to_string(round) + "/"; }
    std::string live_prefix() const { return "cpprun/live/" + rendezvous().run_id + "/"; }
    Milliseconds seconds_of(const char* key, int otherwise) const;
    Milliseconds connect_time() const;
    Moment now() const;
    std::string names(const std::vector<NodeId>& nodes) const;
    std::string change_of_members(const RoundMembers& before, const RoundMembers& after) const;
    std::string describe(const RoundMembers& members, const std::vector<int>& ranks) const;

    NodeId me_;
    MembershipSettings settings_;
    MembershipMachine machine_;
    std::vector<MembershipEvent> events_;  ///< for the machine, while it is at work
    bool feeding_ = false;
    std::chrono::seconds clock_ahead_;
    boost::asio::steady_timer wake_timer_;
    HostChoice choice_;
    bool introduced_ = false;
    bool mending_ = false;
    std::chrono::steady_clock::time_point joined_at_;
    std::string change_;         ///< who came and who went since the round before; empty: nobody, or not known
    bool ends_the_run_ = false;  ///< the nodes have changed too often
    bool round_told_ = false;    ///< a round has formed for the latest wish to join
    bool others_work_ = false;   ///< the exit barrier's time was over before they had ended
    std::shared_ptr<const RoundMembers> members_;
    int rank_ = 0;
    bool mixed_ = false;  ///< torchrun agents are in the round

    bool led_ = false;
    NewsLog mailbox_;
    std::int64_t wishes_ = 0;
    JoinProgress led_progress_;
    std::chrono::steady_clock::time_point last_sign_of_life_;  ///< that the host has confirmed
    bool fenced_ = false;
    std::atomic_flag other_run_told_;
    std::unique_ptr<HostDesk> desk_;  ///< of a host

    /// A round whose keys are still in the hosted store.
    struct KeptRound {
        std::int64_t round = 0;
        std::size_t world = 0;
        bool mixed = false;
    };
    std::deque<KeptRound> kept_rounds_;

    std::string token_;
    StateDialect dialect_ = StateDialect::aware;
    bool dialect_known_ = false;
    UnknownAttributes unknown_;
    bool mixed_told_ = false;

    std::unique_ptr<StoreHost> worker_store_;
    std::optional<ReservedPort> reserved_port_;
    std::string own_address_;
};

}  // namespace cpprun
