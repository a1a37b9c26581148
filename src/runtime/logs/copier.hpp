// SPDX-License-Identifier: BSD-3-Clause
// The thread behind Tail: one loop over the files to follow, the two consoles and a queue of requests. Only send(),
// quit() and ended_within() may be called from another thread.
#pragma once

#include "core/logs/line_filter.hpp"
#include "core/logs/line_folder.hpp"
#include "core/logs/line_prefixer.hpp"
#include "runtime/logs/console.hpp"
#include "runtime/logs/file_watch.hpp"
#include "runtime/logs/tail.hpp"
#include "runtime/os/unique_fd.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace cpprun {

class Copier {
  public:
    /// As `ps -L` and /proc/<pid>/task show it.
    static constexpr const char* thread_name = "cpprun-tail";

    struct Follow {
        TailStream stream;
        std::shared_ptr<const UniqueFd> file;  ///< open for reading
    };
    struct Drain {
        int id = 0;  ///< given back to `drained`
    };
    struct CatchUp {
        int local_rank = 0;
        std::shared_ptr<std::promise<void>> done;
    };
    struct EndLine {
        std::shared_ptr<std::promise<void>> done;
    };
    struct Resize {
        TerminalSize size;
        std::shared_ptr<std::promise<void>> done;
    };
    using Request = std::variant<Follow, Drain, CatchUp, Resize, EndLine>;

    /// What the thread tells the outside; called on the thread, and never after quit() has been seen.
    struct Reports {
        std::function<void(const std::string&)> problem;
        std::function<void(int id)> drained;
    };

    Copier(const TailOptions& options, Reports reports);

    void send(Request request);
    void quit();
    /// Has run() returned, or does it within `bound`?
    bool ended_within(std::chrono::milliseconds bound);

    /// Has a stream left a line open on stderr, as far as the thread has told?
    bool line_is_open() const { return line_open_; }

    /// The thread's life. Returns after quit().
    void run();

  private:
    using Clock = std::chrono::steady_clock;

    struct Followed {
        Followed(Follow request, Console* shown_on, const TailOptions& options);

        LinePrefixer& shower() { return folded ? *folded : prefixer; }
        bool captured() const { return stream.captured != nullptr; }
        int fd() const { return file->get(); }

        TailStream stream;
        std::shared_ptr<const UniqueFd> file;
        int token = 0;                       ///< in notices of watch_
        Console* console;                    ///< null: only watched
        bool painted;                        ///< the prefix on the console has a colour
        LinePrefixer prefixer;               ///< without the prefix where lines are folded
        std::optional<LinePrefixer> folded;  ///< there: what shows the lines that come out
        std::optional<LineFilter> filter;    ///< where there is a file for it
        std::uint64_t offset = 0;            ///< of the next byte to read
        std::string tail;                    ///< the last bytes before the offset, as they were read
        std::optional<timespec> settled;     ///< read to its end: when it had been written last, then
        bool dirty = true;                   ///< may hold bytes that have not been read
        bool armed = false;                  ///< a notice will come, or the files are polled
        bool polled = false;
        Clock::time_point last_read{};
        Clock::time_point not_before{};
        std::optional<std::uint64_t> limit = std::nullopt;  ///< draining: read no further
        int drain_id = 0;
        std::uint64_t released = 0;  ///< captured: up to here the memory has been given back
        bool held_back = false;      ///< its console still lacks text of an attempt that has ended
    };

    struct Draining {
        std::size_t streams_left = 0;
        std::vector<std::uint64_t> targets;  ///< by console, once no stream is left
    };

    void take_requests();
    void accept(Follow request);
    void accept(Drain request);
    void accept(CatchUp request);
    void accept(Resize request);
    void accept(EndLine request);

    static bool is_written_anew(const Followed& followed);
    static void begin_anew(Followed& followed);
    static void settle(Followed& followed);

    void hold_back_later_attempts();
    void copy_round();
    void copy_some(Followed& followed);
    void take_bytes(Followed& followed, std::string_view bytes);
    void renew_prefix(Followed& followed);
    template <class Append>
    void show(Followed& followed, Append&& append);
    void fold(Followed& followed, std::string_view text);
    void show_folded(const std::vector<FoldedLine>& lines);
    LineFolder& folder_of(const Followed& followed) {
        return followed.stream.stream == Std::err ? folders_[1] : folders_[0];
    }
    void take_from_terminal(Followed& followed, std::size_t bytes_max);
    void pass_captured(Followed& followed, std::string_view bytes);
    void skip_captured(Followed& followed);
    void leave_out_what_is_too_much();
    void at_end(Followed& followed, bool nothing_read);
    std::optional<Clock::time_point> next_too_much_check() const;
    void arm(Followed& followed);
    void show_what_is_due();
    bool is_shown(const Followed& followed) const;
    bool is_read(const Followed& followed) const;
    bool is_done(const Followed& followed) const;
    bool has_room(const Followed& followed) const;

    void retire_drained_streams();
    void retire(Followed& followed);
    void complete_drains();
    bool has_written(const std::vector<std::uint64_t>& targets) const;

    void write_filtered(const Followed& followed);
    void write_consoles();
    void look_at_polled_files();
    void expect_full_disk_check();
    void check_for_full_disk();
    void report(const std::string& problem);
    void report_once(const std::string& about, const std::string& problem);

    void wait();
    std::optional<Clock::time_point> next_deadline() const;
    void take_notices();

    TailOptions options_;
    Reports reports_;
    std::vector<Console> consoles_;  ///< one, when stdout and stderr are the same
    FileWatch watch_;
    UniqueFd wake_;
    std::mutex requests_mutex_;  ///< guards requests_ alone
    std::vector<Request> requests_;
    std::atomic<bool> quit_{false};
    std::atomic<bool> line_open_{false};
    std::promise<void> ended_;
    std::future<void> ended_future_ = ended_.get_future();

    std::list<Followed> followed_;
    std::unordered_map<int, Followed*> by_token_;
    std::map<int, Draining> draining_;
    std::vector<char> chunk_;
    std::array<LineFolder, 2> folders_;  ///< for stdout and stderr
    std::vector<pollfd> waiters_;
    std::string unfolded_;
    std::string filtered_text_;
    std::vector<std::string> reported_;
    Clock::time_point now_{};
    Clock::time_point next_poll_{};
    Clock::time_point next_too_much_{};
    Clock::time_point last_disk_check_{};
    std::optional<Clock::time_point> disk_check_due_;
    int next_token_ = 0;
    std::size_t polled_ = 0;
};

}  // namespace cpprun
