// SPDX-License-Identifier: BSD-3-Clause
// What the meetings of several nodes have in common: who hosts the agents' store, two links to it, news between
// cpprun's agents, the exchange of ranks and the exit barrier in torch's keys.
#pragma once

#include "core/host_facts.hpp"
#include "core/launch_config.hpp"
#include "runtime/agent/job_meeting.hpp"
#include "runtime/rendezvous/host_choice.hpp"
#include "runtime/rendezvous/news_log.hpp"
#include "runtime/rendezvous/store_link.hpp"
#include "runtime/store/store_host.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

/// Of a message between agents; a longer one is none.
inline constexpr std::size_t message_bytes_max = 4096;

class StoreMeeting : public JobMeeting {
  public:
    ~StoreMeeting() override;

    void join(const JoinRound& wish) final;
    void end(const RunResult& result, std::function<void()> done) final;
    void tell(PeerNote note) final;
    void leave_words(std::string text) final;
    std::vector<JobFailure> job_failures() const final { return job_failures_; }

  protected:
    using Milliseconds = std::chrono::milliseconds;
    using Json = nlohmann::ordered_json;
    template <class T>
    using Async = boost::asio::awaitable<Result<T>>;

    StoreMeeting(const LaunchConfig& config, const HostFacts& host, boost::asio::any_io_executor executor,
                 StoreLog complain);

    // --- what differs ---

    /// Before the first join: hosts or finds the store, makes this agent known in it.
    virtual Async<void> open() = 0;
    /// It has been opened.
    virtual void opened() = 0;
    /// A later wish to join, `wish_`.
    virtual void join_again() = 0;
    /// Tells the others what they should know, within a bound; then calls `done`.
    virtual boost::asio::awaitable<void> say_goodbye(RunResult result, std::function<void()> done) = 0;

    /// Why this node does not host the store, where that was a matter of choice: goes on after "this node is not the
    /// host because ". Empty: nothing to say.
    virtual std::string why_not_host() const { return {}; }

    /// The run cannot go on for this node.
    void fail(Error error);

    const LaunchConfig& config() const { return config_; }
    const RendezvousConfig& rendezvous() const { return config_.rendezvous; }
    boost::asio::any_io_executor executor() const { return executor_; }
    const std::string& host_name() const { return host_name_; }
    int pid() const { return pid_; }
    const StoreLog& complain() const { return complain_; }
    std::string own_prefix() const { return private_prefix(rendezvous().run_id); }
    /// "node1 (pid 12)": this agent in messages.
    std::string own_description() const;

    /// Starts a coroutine that belongs to this object. It must not outlive it by touching it: see ended().
    void spawn(boost::asio::awaitable<void> flow);
    /// A text for an endless wait: "waiting for …" every ten seconds, the first after three.
    boost::asio::awaitable<void> pause(Milliseconds time);

    // --- the store of the agents ---

    /// Hosts the store on the endpoint's port. `observer` is called on the store's thread.
    Result<void> host_store(ListenSpec spec);
    ListenSpec agents_listen_spec() const;
    StoreHost* hosted() { return store_.get(); }
    const StoreHost* hosted() const { return store_.get(); }
    void close_store() { store_.reset(); }
    /// The link that only waits for news.
    std::shared_ptr<StoreLink> watch() const { return watch_; }

    /// Connects one link to the endpoint; says every ten seconds what it waits for and why.
    Async<std::shared_ptr<StoreLink>> open_link(Milliseconds connect_timeout);
    /// The link for short requests.
    std::shared_ptr<StoreLink> ops() const { return ops_; }
    Async<void> open_links(Milliseconds connect_timeout);
    void close_links();
    bool links_up() const { return ops_ && ops_->usable() && watch_ && watch_->usable(); }

    /// Who hosts: none if it is no cpprun.
    struct HostIdentity {
        std::string run_id;
        std::string host;
        int pid = 0;
        int nodes_min = 0;
        int nodes_max = 0;
        Milliseconds silent_after{0};  ///< how long it waits for a word of an agent
    };
    Async<std::optional<HostIdentity>> read_host_identity();
    std::string host_identity_text() const;
    /// How long the others wait for a word of this agent: the host decides.
    Milliseconds silent_after() const {
        return store_ || !host_identity_ ? rendezvous().silent_after : host_identity_->silent_after;
    }
    bool host_is_cpprun() const { return host_identity_.has_value() || store_ != nullptr; }

    // --- news ---

    NewsLog& news() { return news_; }
    /// A text that no other is like.
    std::string news_text(const std::string& type, Json more);
    boost::asio::awaitable<StoreFailure> follow_news(std::function<void(const Json&)> hear);
    boost::asio::awaitable<StoreResult<void>> publish(std::string type, Json more = Json::object());

    // --- torch's keys ---

    /// Gives and takes ranks under `prefix` (contract 7.2). `waiting_for` says in words which of these group ranks have
    /// not come yet.
    Async<RankRange> exchange_ranks(std::shared_ptr<StoreLink> link, std::string prefix, int group_rank,
                                    int group_world_size, Milliseconds timeout,
                                    std::function<std::string(const std::vector<int>&)> waiting_for);

    /// Waits until all keys are there, `timeout` at most, and says every ten seconds what is missing. Returns the
    /// indices of those that did not come; empty: all did.
    Async<std::vector<int>> wait_for_all(std::shared_ptr<StoreLink> link, std::vector<std::string> keys,
                                         Milliseconds timeout,
                                         std::function<std::string(const std::vector<int>&)> waiting_for);

    /// torch's exit barrier under `prefix` (contract 7.5); `done_prefix` holds our own notes of who is through. True:
    /// all came; false: the time was over. Who `serves` the others a store stays nevertheless.
    Async<bool> pass_exit_barrier(std::shared_ptr<StoreLink> link, std::string prefix, std::string done_prefix,
                                  int group_rank, int group_world_size, bool serves,
                                  std::function<std::string(const std::vector<int>&)> waiting_for);

    /// Lets the others leave before the hosted store goes, for this long at most.
    boost::asio::awaitable<void> see_others_off(Milliseconds at_most);

    /// Passes a note on to the agent, from an entry of the news. None: it makes no sense.
    std::optional<PeerNote> hear_note(const Json& entry);
    /// The name of this node in the keys of what it leaves behind.
    virtual std::string words_name() const = 0;
    /// Passes on what a node that is gone has left, if there is anything: `host` is what it is called.
    boost::asio::awaitable<void> show_words(std::string name, std::string host);

    /// Waits a moment until what this agent said about a failure has come back: what others said before is known then.
    boost::asio::awaitable<void> own_failure_heard();

    /// What to tell the others about a failed run: which worker, of what.
    std::string failure_text(const RunResult& result) const;
    /// The report of it that the others show too; empty: no worker failed.
    std::string failure_report_text(const RunResult& result) const;
    /// The same of another node, as it came.
    void hear_report(std::string_view text);
    /// What ends this node's run when another's failure was heard of.
    RunEnded job_failed() const;

    bool ended() const { return ended_; }
    void set_ended() { ended_ = true; }

    /// "a, b and 3 more": the first of `total`.
    static std::string first_of(const std::vector<std::string>& texts, std::size_t total);

    JoinRound wish_;  ///< the latest
    bool opened_ = false;
    bool in_round_ = false;  ///< RoundReady was posted and nothing has ended that round for this node
    bool in_barrier_ = false;
    std::int64_t serial_ = 0;                ///< of joins: what belongs to an earlier one gives up
    std::shared_ptr<StoreLink> place_link_;  ///< for the long waits of a round: its ranks, its end
    std::string failure_heard_;
    std::string report_heard_;  ///< safe to show

  private:
    static std::string private_prefix(const std::string& run_id) { return "cpprun/1/" + run_id + "/"; }
    boost::asio::awaitable<void> open_and_join();

    const LaunchConfig& config_;
    boost::asio::any_io_executor executor_;
    StoreLog complain_;
    std::string host_name_;
    int pid_;
    std::unique_ptr<StoreHost> store_;
    std::shared_ptr<StoreLink> ops_;
    std::shared_ptr<StoreLink> watch_;
    std::optional<HostIdentity> host_identity_;
    NewsLog news_;
    std::int64_t news_serial_ = 0;
    std::vector<JobFailure> job_failures_;
    bool failure_told_ = false;  ///< and it has not come back yet
    bool opening_ = false;
    bool ended_ = false;
};

}  // namespace cpprun
