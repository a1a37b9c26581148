// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/logs/copier.hpp"

#include "core/error.hpp"
#include "core/report/failure_report.hpp"
#include "runtime/logs/captured_file.hpp"
#include "runtime/os/whole_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>

namespace cpprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t chunk_bytes = std::size_t{64} << 10U;

/// A stream that is written to faster than this is read in portions, which spares both sides most of the wake-ups.
constexpr auto portion_time = 1ms;

/// How soon after a write, and how often, to look whether the disk is full.
constexpr auto disk_check_delay = 200ms;
constexpr auto disk_check_interval = 1s;

/// How often to look whether a captured stream outgrows a console that takes nothing.
constexpr auto too_much_interval = 50ms;

/// What is shown, at least, of a captured stream that has outgrown its console; and the portions of giving back.
constexpr std::uint64_t shown_of_too_much = std::uint64_t{1} << 20U;
/// By which it is seen that a file is not what was read.
constexpr std::size_t tail_bytes = 64;
/// A file that is emptied and filled with the very same text is not longer.
constexpr std::uint64_t same_text_bytes_max = 4096;
/// What is taken, at most, from a pseudo-terminal whose worker has ended: its children may write on for ever.
constexpr std::size_t last_terminal_bytes = std::size_t{1} << 20U;

constexpr std::uint64_t release_portion = std::uint64_t{64} << 10U;

std::uint64_t size_of(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool disk_is_full(int file) {
    struct statvfs disk {};
    if (::fstatvfs(file, &disk) != 0 || disk.f_blocks == 0) return false;
    return (::geteuid() == 0 ? disk.f_bfree : disk.f_bavail) == 0;
}

std::vector<Console> make_consoles(const TailOptions& options) {
    std::vector<Console> consoles;
    consoles.emplace_back(options.stdout_fd, "stdout");
    if (!same_console(options.stdout_fd, options.stderr_fd)) consoles.emplace_back(options.stderr_fd, "stderr");
    return consoles;
}

std::optional<LineFilter> make_filter(const TailStream& stream) {
    if (!stream.shown || !stream.filtered_file || stream.filters.empty()) return std::nullopt;
    return LineFilter(stream.prefix.text({}, false), stream.filters);
}

bool is_folded(const TailStream& stream, const TailOptions& options) {
    return stream.shown && !stream.captured && options.fold_window.count() > 0;
}

ProgressStyle progress_style(const TailStream& stream, const TailOptions& options) {
    if (options.progress_bars == ProgressBars::all) return ProgressStyle::all;
    const bool in_place = stream.stream == Std::err ? options.stderr_in_place : options.stdout_in_place;
    return in_place && !is_folded(stream, options) ? ProgressStyle::in_place : ProgressStyle::lines;
}

/// Local time, as in the launcher's own lines.
LineMoment moment_now() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm parts{};
    ::localtime_r(&now.tv_sec, &parts);
    return {fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday),
            fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1'000'000)};
}

}  // namespace

Copier::Followed::Followed(Follow request, Console* shown_on, const TailOptions& options)
    : stream(std::move(request.stream)),
      file(std::move(request.file)),
      console(shown_on),
      painted(stream.stream == Std::err ? options.stderr_color : options.stdout_color),
      prefixer(is_folded(stream, options) ? std::string() : stream.prefix.text({}, painted),
               progress_style(stream, options), options.quiet_time),
      folded(is_folded(stream, options) ? std::optional<LinePrefixer>(stream.prefix.text({}, painted)) : std::nullopt),
      filter(make_filter(stream)) {}

Copier::Copier(const TailOptions& options, Reports reports)
    : options_(options),
      reports_(std::move(reports)),
      consoles_(make_consoles(options)),
      watch_(options.use_inotify),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      chunk_(chunk_bytes),
      folders_{LineFolder(options.fold_window), LineFolder(options.fold_window)} {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void Copier::send(Request request) {
    {
        const std::lock_guard lock(requests_mutex_);
        requests_.push_back(std::move(request));
    }
    ::eventfd_write(wake_.get(), 1);
}

void Copier::quit() {
    quit_ = true;
    ::eventfd_write(wake_.get(), 1);
}

bool Copier::ended_within(std::chrono::milliseconds bound) {
    return ended_future_.wait_for(bound) == std::future_status::ready;
}

void Copier::run() {
    ::pthread_setname_np(::pthread_self(), thread_name);
    while (!quit_) {
        now_ = Clock::now();
        take_requests();
        look_at_polled_files();
        leave_out_what_is_too_much();
        copy_round();
        show_what_is_due();
        retire_drained_streams();
        line_open_ = consoles_.back().line_open();
        write_consoles();
        complete_drains();
        if (disk_check_due_ && now_ >= *disk_check_due_) check_for_full_disk();
        wait();
    }
    write_consoles();
    ended_.set_value();
}

void Copier::take_requests() {
    std::vector<Request> taken;
    {
        const std::lock_guard lock(requests_mutex_);
        taken.swap(requests_);
    }
    for (Request& request : taken) {
        std::visit([this](auto& one) { accept(std::move(one)); }, request);
    }
}

void Copier::accept(Follow request) {
    Console* console = nullptr;
    if (request.stream.shown) console = request.stream.stream == Std::err ? &consoles_.back() : &consoles_.front();
    Followed& followed = followed_.emplace_back(std::move(request), console, options_);
    followed.polled = !watch_.suits(followed.fd());
    if (followed.polled) ++polled_;
    followed.token = ++next_token_;
    by_token_[followed.token] = &followed;
    if (followed.folded) folder_of(followed).add_source(followed.token);
}

void Copier::accept(Drain request) {
    check_for_full_disk();
    Draining& draining = draining_[request.id];
    for (Followed& followed : followed_) {
        if (followed.limit) continue;
        take_from_terminal(followed, last_terminal_bytes);
        followed.drain_id = request.id;
        if (is_written_anew(followed)) begin_anew(followed);
        followed.limit = size_of(followed.fd());
        followed.dirty = true;
        followed.not_before = {};
        ++draining.streams_left;
    }
}

void Copier::accept(CatchUp request) {
    for (Followed& followed : followed_) {
        if (!followed.captured() || followed.stream.local_rank != request.local_rank || followed.limit) continue;
        take_from_terminal(followed, last_terminal_bytes);
        const std::uint64_t size = size_of(followed.fd());
        followed.dirty = true;
        followed.not_before = {};
        while (is_read(followed) && followed.offset < size && has_room(followed)) {
            const std::uint64_t before = followed.offset;
            copy_some(followed);
            if (followed.offset <= before) break;
            write_consoles();
        }
    }
    request.done->set_value();
}

void Copier::accept(Resize request) {
    for (const Followed& followed : followed_) {
        if (followed.stream.terminal) set_size(followed.stream.terminal->launcher_side.get(), request.size);
    }
    request.done->set_value();
}

void Copier::accept(EndLine request) {
    consoles_.back().end_line();
    write_consoles();
    request.done->set_value();
}

void Copier::take_from_terminal(Followed& followed, std::size_t bytes_max) {
    std::shared_ptr<CapturedTerminal>& terminal = followed.stream.terminal;
    std::size_t taken = 0;
    while (terminal && taken < bytes_max) {
        const ssize_t got = ::read(terminal->launcher_side.get(), chunk_.data(), chunk_.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) {
            terminal.reset();  // nobody has the other side open any more
            break;
        }
        taken += static_cast<std::size_t>(got);
        const std::string_view bytes(chunk_.data(), static_cast<std::size_t>(got));
        if (const int error = write_whole(terminal->file.get(), bytes).error; error != 0)
            report_once("terminal", "cannot keep what workers write to stderr: " + error_text(error));
    }
    if (taken == 0) return;
    followed.dirty = true;
    followed.not_before = {};
}

bool Copier::is_shown(const Followed& followed) const {
    return followed.console != nullptr && !followed.console->failed();
}

bool Copier::is_read(const Followed& followed) const {
    return followed.console != nullptr && (!followed.console->failed() || followed.filter);
}

bool Copier::is_done(const Followed& followed) const {
    return followed.limit && (!is_read(followed) || followed.offset >= *followed.limit);
}

bool Copier::has_room(const Followed& followed) const {
    if (followed.held_back) return false;
    return followed.console == nullptr || followed.console->failed() || followed.console->has_room();
}

void Copier::hold_back_later_attempts() {
    std::map<const Console*, int> oldest;
    for (const Followed& followed : followed_) {
        if (!followed.limit || followed.console == nullptr) continue;
        const auto [entry, added] = oldest.try_emplace(followed.console, followed.drain_id);
        if (!added) entry->second = std::min(entry->second, followed.drain_id);
    }
    for (Followed& followed : followed_) {
        const auto entry = oldest.find(followed.console);
        followed.held_back = entry != oldest.end() && (!followed.limit || followed.drain_id > entry->second);
    }
}

void Copier::copy_round() {
    hold_back_later_attempts();
    // The first is the last next time: a console that never has room for all is shared fairly.
    if (followed_.size() > 1) followed_.splice(followed_.end(), followed_, followed_.begin());
    for (Followed& followed : followed_) {
        if (followed.dirty && now_ >= followed.not_before && has_room(followed)) copy_some(followed);
    }
}

void Copier::copy_some(Followed& followed) {
    if (!is_read(followed) && followed.captured()) {
        skip_captured(followed);
        return;
    }
    if (!is_read(followed)) {
        followed.dirty = false;
        if (followed.console == nullptr && !followed.armed) arm(followed);
        return;
    }
    if (is_done(followed)) return;
    if (followed.settled && is_written_anew(followed)) begin_anew(followed);
    followed.settled.reset();
    std::uint64_t wanted = chunk_bytes;
    if (followed.limit) wanted = std::min(wanted, *followed.limit - followed.offset);
    const ssize_t bytes = ::pread(followed.fd(), chunk_.data(), wanted, static_cast<off_t>(followed.offset));
    if (bytes < 0 && errno == EINTR) return;
    if (bytes < 0) {
        report_once(followed.stream.path, "cannot read " + followed.stream.path + ": " + error_text(errno));
        followed.dirty = false;
        if (followed.limit) followed.limit = followed.offset;
        return;
    }
    auto count = static_cast<std::size_t>(bytes);
    if (followed.captured() && count == chunk_bytes) {
        // More is there: the end of a line is a better place to stop, as another rank may be next.
        const void* end = ::memrchr(chunk_.data(), '\n', count);
        if (end != nullptr)
            count = wanted = static_cast<std::size_t>(static_cast<const char*>(end) - chunk_.data()) + 1;
    }
    if (count > 0) take_bytes(followed, std::string_view(chunk_.data(), count));
    if (count < wanted) at_end(followed, count == 0);
}

// A shell's `> /dev/stderr` opens the file anew and empties it; what it holds now is new. It can be as long as before,
// or longer, by the time it is looked at.
bool Copier::is_written_anew(const Followed& followed) {
    struct stat facts {};
    if (::fstat(followed.fd(), &facts) != 0) return false;
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    if (size < followed.offset) return true;
    std::string now(followed.tail.size(), '\0');
    const auto begin = static_cast<off_t>(followed.offset - now.size());
    if (::pread(followed.fd(), now.data(), now.size(), begin) != static_cast<ssize_t>(now.size())) return false;
    if (now != followed.tail) return true;
    // The same text once more. Only of a file that has no name and so no other reason to have a new time.
    if (!followed.captured() || !followed.settled || size != followed.offset || size > same_text_bytes_max)
        return false;
    return facts.st_mtim.tv_sec != followed.settled->tv_sec || facts.st_mtim.tv_nsec != followed.settled->tv_nsec;
}

void Copier::begin_anew(Followed& followed) {
    followed.offset = 0;
    followed.released = 0;
    followed.tail.clear();
    followed.settled.reset();
}

// Only when nothing is left to read, so that whatever the time tells of later is later.
void Copier::settle(Followed& followed) {
    struct stat facts {};
    if (::fstat(followed.fd(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != followed.offset) return;
    followed.settled = facts.st_mtim;
}

void Copier::take_bytes(Followed& followed, std::string_view bytes) {
    followed.offset += bytes.size();
    followed.tail.append(bytes.substr(bytes.size() - std::min(bytes.size(), tail_bytes)));
    if (followed.tail.size() > tail_bytes) followed.tail.erase(0, followed.tail.size() - tail_bytes);
    if (bytes.size() < chunk_bytes && now_ - followed.last_read < portion_time && !followed.limit) {
        followed.not_before = now_ + portion_time;
    }
    followed.last_read = now_;
    if (followed.captured()) {
        pass_captured(followed, bytes);
        return;
    }
    if (followed.stream.prefix.has_moment()) renew_prefix(followed);
    show(followed, [&](std::string& out) { followed.prefixer.feed(bytes, out, now_); });
    if (followed.filter) {
        followed.filter->feed(bytes, filtered_text_);
        write_filtered(followed);
    }
    expect_full_disk_check();
}

template <class Append>
void Copier::show(Followed& followed, Append&& append) {
    if (!followed.folded) {
        followed.console->show(followed.prefixer, append);
        return;
    }
    unfolded_.clear();
    append(unfolded_);
    fold(followed, unfolded_);
    show_folded(folder_of(followed).take_due(now_));
}

void Copier::fold(Followed& followed, std::string_view text) {
    LinePrefixer& shower = *followed.folded;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        if (end != std::string_view::npos && !shower.line_open()) {
            folder_of(followed).add(followed.token, line, now_);
        } else {
            // A line without an end, or the rest of one, cannot wait to be like another's.
            show_folded(folder_of(followed).take_up_to(followed.token));
            followed.console->show(shower, [&](std::string& out) {
                shower.feed(end == std::string_view::npos ? line : text.substr(0, end + 1), out, now_);
                shower.show_due(out, Clock::time_point::max());
            });
        }
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

void Copier::show_folded(const std::vector<FoldedLine>& lines) {
    for (const FoldedLine& line : lines) {
        Followed& first = *by_token_.at(line.sources.front());
        std::string text = line.text;
        if (line.sources.size() > 1) {
            std::vector<int> ranks;
            for (const int token : line.sources) {
                const TailStream& stream = by_token_.at(token)->stream;
                const int rank = stream.prefix.global_rank();
                ranks.push_back(rank < 0 ? stream.local_rank : rank);
            }
            std::sort(ranks.begin(), ranks.end());
            text += fmt::format(" [x{} ranks: {}]", ranks.size(), rank_ranges(ranks));
        }
        if (first.stream.prefix.has_moment()) renew_prefix(first);
        first.console->show(*first.folded, [&](std::string& out) { first.folded->feed(text + "\n", out, now_); });
    }
}

void Copier::renew_prefix(Followed& followed) {
    const LineMoment moment = moment_now();
    followed.shower().set_prefix(followed.stream.prefix.text(moment, followed.painted));
    if (followed.filter) followed.filter->set_prefix(followed.stream.prefix.text(moment, false));
}

void Copier::pass_captured(Followed& followed, std::string_view bytes) {
    followed.console->pass(bytes);
    if (followed.offset < followed.released + last_words_bytes_max + release_portion) return;
    followed.released = release_bytes(followed.fd(), followed.released, followed.offset - last_words_bytes_max);
}

/// Nobody sees the stream, and only its last words are kept.
void Copier::skip_captured(Followed& followed) {
    const std::uint64_t size = size_of(followed.fd());
    const bool more = size != followed.offset;
    followed.offset = size;
    followed.tail.clear();
    followed.settled.reset();
    if (size < followed.released) followed.released = 0;
    if (size >= followed.released + last_words_bytes_max + release_portion)
        followed.released = release_bytes(followed.fd(), followed.released, size - last_words_bytes_max);
    if (!followed.armed) {
        arm(followed);
    } else if (!more) {
        followed.dirty = false;
    }
    followed.not_before = now_ + portion_time;
}

void Copier::leave_out_what_is_too_much() {
    if (now_ < next_too_much_) return;
    next_too_much_ = now_ + too_much_interval;
    for (Followed& followed : followed_) {
        if (!followed.captured() || !is_read(followed) || has_room(followed)) continue;
        const std::uint64_t size = size_of(followed.fd());
        if (size < followed.offset + options_.captured_bytes_max) continue;
        const std::uint64_t begin = size - std::min(shown_of_too_much, options_.captured_bytes_max / 2);
        const std::string note = "\n[cpprun: " + std::to_string(begin - followed.offset) + " bytes of local rank " +
                                 std::to_string(followed.stream.local_rank) +
                                 "'s stderr are left out here, as nobody took them]\n";
        followed.offset = begin;
        followed.tail.clear();
        followed.settled.reset();
        followed.released = release_bytes(followed.fd(), followed.released, begin - begin % 4096);
        followed.console->pass(note);
    }
}

std::optional<Copier::Clock::time_point> Copier::next_too_much_check() const {
    const auto waits = [this](const Followed& followed) {
        return followed.captured() && is_read(followed) && followed.dirty && !has_room(followed);
    };
    if (std::none_of(followed_.begin(), followed_.end(), waits)) return std::nullopt;
    return next_too_much_;
}

void Copier::at_end(Followed& followed, bool nothing_read) {
    const std::uint64_t size = nothing_read ? size_of(followed.fd()) : followed.offset;
    if (size < followed.offset) {
        begin_anew(followed);
        if (followed.limit) followed.limit = size;
        return;
    }
    settle(followed);
    if (followed.limit && nothing_read) followed.limit = followed.offset;
    if (!followed.armed) {
        arm(followed);
    } else if (nothing_read) {
        followed.dirty = false;
    }
}

void Copier::arm(Followed& followed) {
    followed.armed = true;
    if (followed.polled || watch_.arm(followed.fd(), followed.token)) return;
    followed.polled = true;
    ++polled_;
}

void Copier::show_what_is_due() {
    for (Followed& followed : followed_) {
        const auto due = followed.prefixer.due();
        if (!due || now_ < *due || !has_room(followed) || !is_shown(followed)) continue;
        if (followed.stream.prefix.has_moment()) renew_prefix(followed);
        show(followed, [&](std::string& out) { followed.prefixer.show_due(out, now_); });
    }
    for (LineFolder& folder : folders_) show_folded(folder.take_due(now_));
}

void Copier::retire_drained_streams() {
    for (auto followed = followed_.begin(); followed != followed_.end();) {
        if (!is_done(*followed)) {
            ++followed;
            continue;
        }
        retire(*followed);
        followed = followed_.erase(followed);
    }
    hold_back_later_attempts();
}

void Copier::retire(Followed& followed) {
    if (followed.captured()) seal(followed.fd());
    if (followed.console != nullptr && !followed.captured()) {
        show(followed, [&](std::string& out) { followed.prefixer.finish(out); });
        if (followed.folded) show_folded(folder_of(followed).take_up_to(followed.token));
        followed.console->forget(followed.shower());
    }
    if (followed.folded) folder_of(followed).remove_source(followed.token);
    followed.stream.terminal.reset();
    if (followed.filter) {
        followed.filter->finish(filtered_text_);
        write_filtered(followed);
    }
    if (followed.polled) --polled_;
    watch_.disarm(followed.token);
    by_token_.erase(followed.token);
    --draining_[followed.drain_id].streams_left;
}

void Copier::complete_drains() {
    // In order: one drain also waits for the streams of those before it.
    while (!draining_.empty()) {
        Draining& first = draining_.begin()->second;
        if (first.streams_left > 0) return;
        if (first.targets.empty()) {
            for (const Console& console : consoles_) first.targets.push_back(console.shown());
        }
        if (!has_written(first.targets)) return;
        if (!quit_) reports_.drained(draining_.begin()->first);
        draining_.erase(draining_.begin());
    }
}

bool Copier::has_written(const std::vector<std::uint64_t>& targets) const {
    for (std::size_t i = 0; i < targets.size(); ++i) {
        if (consoles_[i].written() < targets[i]) return false;
    }
    return true;
}

void Copier::write_filtered(const Followed& followed) {
    if (filtered_text_.empty()) return;
    const int error = write_whole(followed.stream.filtered_file->get(), filtered_text_).error;
    filtered_text_.clear();
    if (error == 0) return;
    const std::string file = followed.stream.stream == Std::err ? "filtered_stderr.log" : "filtered_stdout.log";
    report_once(file, "cannot write " + file + ": " + error_text(error) + "; lines are missing there, the job goes on");
}

void Copier::write_consoles() {
    for (Console& console : consoles_) {
        if (const auto problem = console.write_waiting()) report(*problem);
    }
}

void Copier::look_at_polled_files() {
    if (polled_ == 0 || now_ < next_poll_) return;
    next_poll_ = now_ + options_.poll_interval;
    for (Followed& followed : followed_) {
        if (followed.polled && (is_read(followed) || followed.captured())) followed.dirty = true;
        if (followed.polled && followed.console == nullptr && !followed.captured()) expect_full_disk_check();
    }
}

void Copier::expect_full_disk_check() {
    if (disk_check_due_) return;
    disk_check_due_ = std::max<Clock::time_point>(now_ + disk_check_delay, last_disk_check_ + disk_check_interval);
}

void Copier::check_for_full_disk() {
    disk_check_due_.reset();
    last_disk_check_ = now_;
    for (Followed& followed : followed_) {
        if (followed.console == nullptr && !followed.armed) arm(followed);
    }
    // All of a run's files are on one disk.
    const auto logged =
        std::find_if(followed_.begin(), followed_.end(), [](const Followed& f) { return !f.captured(); });
    if (logged == followed_.end() || !disk_is_full(logged->fd())) return;
    report_once("disk", "no space is left where the workers' logs are, at " + logged->stream.path +
                            ": what does not fit is lost, and the job goes on");
}

void Copier::report(const std::string& problem) {
    if (!quit_) reports_.problem(problem);
}

void Copier::report_once(const std::string& about, const std::string& problem) {
    if (std::find(reported_.begin(), reported_.end(), about) != reported_.end()) return;
    reported_.push_back(about);
    report(problem);
}

std::optional<Copier::Clock::time_point> Copier::next_deadline() const {
    std::optional<Clock::time_point> next = disk_check_due_;
    const auto include = [&next](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
    if (polled_ > 0) include(next_poll_);
    if (const auto check = next_too_much_check()) include(*check);
    for (const Followed& followed : followed_) {
        if (!has_room(followed)) continue;
        if (followed.dirty) include(followed.not_before);
        const auto due = followed.prefixer.due();
        if (due && is_shown(followed)) include(*due);
    }
    for (const LineFolder& folder : folders_) {
        if (const auto due = folder.due()) include(*due);
    }
    return next;
}

void Copier::wait() {
    waiters_.clear();
    waiters_.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
    waiters_.push_back({.fd = watch_.fd(), .events = POLLIN, .revents = 0});
    for (const Console& console : consoles_) {
        if (console.has_waiting()) waiters_.push_back({.fd = console.fd(), .events = POLLOUT, .revents = 0});
    }
    const std::size_t first_terminal = waiters_.size();
    for (const Followed& followed : followed_) {
        if (!followed.stream.terminal) continue;
        waiters_.push_back({.fd = followed.stream.terminal->launcher_side.get(), .events = POLLIN, .revents = 0});
    }
    timespec timeout{};
    const auto deadline = next_deadline();
    if (deadline) {
        const auto now = Clock::now();
        const Clock::duration left = *deadline > now ? *deadline - now : Clock::duration::zero();
        const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
        timeout.tv_sec = static_cast<time_t>(seconds.count());
        timeout.tv_nsec = static_cast<long>(std::chrono::nanoseconds(left - seconds).count());
    }
    if (::ppoll(waiters_.data(), waiters_.size(), deadline ? &timeout : nullptr, nullptr) <= 0) return;
    if (waiters_[0].revents != 0) {
        eventfd_t ignored = 0;
        ::eventfd_read(wake_.get(), &ignored);
    }
    if (waiters_[1].revents != 0) take_notices();
    auto waiter = waiters_.begin() + static_cast<std::ptrdiff_t>(first_terminal);
    for (Followed& followed : followed_) {
        if (followed.stream.terminal && (waiter++)->revents != 0) take_from_terminal(followed, chunk_bytes);
    }
}

void Copier::take_notices() {
    now_ = Clock::now();
    const FileWatch::Notices notices = watch_.take();
    for (const int token : notices.tokens) {
        const auto found = by_token_.find(token);
        if (found == by_token_.end()) continue;
        found->second->armed = false;
        found->second->dirty = is_read(*found->second) || found->second->captured();
        if (found->second->console == nullptr && !found->second->captured()) expect_full_disk_check();
    }
    if (!notices.overflow) return;
    for (Followed& followed : followed_) {
        followed.armed = false;
        followed.dirty = true;
    }
}

}  // namespace cpprun
