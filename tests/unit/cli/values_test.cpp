// SPDX-License-Identifier: BSD-3-Clause
// Values of options and variables (contract 1.1 to 1.5, 1.10, 2.6, 2.7; observed cases 36 to 51, 60, 61, 66, 67, 70).
#include "unit/cli/fake_machine.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace cpprun::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Values, TheDefaultsAreTorchruns) {
    FakeMachine machine;
    const LaunchRequest request = machine.launch({"w.py", "a"});
    const LaunchConfig& config = request.config;
    EXPECT_THAT(request.notices, IsEmpty());
    EXPECT_EQ(config.nproc_per_node, 1);
    EXPECT_EQ(config.role, "default");
    EXPECT_EQ(config.max_restarts, 0);
    EXPECT_EQ(config.monitor_interval, 0.1);
    EXPECT_EQ(config.event_log_handler, "null");
    EXPECT_EQ(config.numa_binding, NumaBinding::none);
    EXPECT_FALSE(config.omp_num_threads);
    EXPECT_EQ(config.worker_store, WorkerStore::agent);
    EXPECT_EQ(config.log_level, "WARNING");
    EXPECT_EQ(config.logs.redirects.for_all, Std::none);
    EXPECT_FALSE(config.logs.base_dir);
    EXPECT_THAT(config.logs.duplicate_stdout_filters, IsEmpty());
    EXPECT_THAT(config.stop.signals_to_handle, ElementsAre("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"));
    EXPECT_EQ(config.stop.shutdown_timeout, std::chrono::seconds(30));
    EXPECT_EQ(config.stop.settle_time, std::chrono::milliseconds(30));
    EXPECT_EQ(config.stop.exit_code, ExitCodePolicy::torchrun);
    EXPECT_EQ(config.program.kind, ProgramKind::python_script);
    EXPECT_EQ(config.program.script, "w.py");
    EXPECT_THAT(config.program.args, ElementsAre("a"));
    EXPECT_EQ(machine.probes, 0);
}

TEST(Values, TheLastOfSeveralCounts) {
    EXPECT_EQ(FakeMachine().config({"--role=a", "--role=b", "w.py"}).role, "b");
    EXPECT_EQ(FakeMachine().config({"--role=", "w.py"}).role, "");
    EXPECT_EQ(FakeMachine().config({"--max-restarts=1", "--max-restarts", "2", "w.py"}).max_restarts, 2);
}

// A variable for each option, beside the field that it must arrive in.
TEST(Values, B10EveryOptionCanComeFromItsVariable) {
    FakeMachine machine;
    machine.set("PET_NNODES", "2:3").set("PET_NPROC_PER_NODE", "2").set("PET_RDZV_BACKEND", "c10d");
    machine.set("PET_RDZV_ENDPOINT", "host:1").set("PET_RDZV_ID", "id").set("PET_RDZV_CONF", "join_timeout=7");
    machine.set("PET_MAX_RESTARTS", "1_0").set("PET_MONITOR_INTERVAL", "2.5").set("PET_START_METHOD", "fork");
    machine.set("PET_EVENT_LOG_HANDLER", "console").set("PET_ROLE", "r").set("PET_NO_PYTHON", "1");
    machine.set("PET_LOG_DIR", "/logs").set("PET_REDIRECTS", "3").set("PET_TEE", "0:1");
    machine.set("PET_LOG_LINE_PREFIX_TEMPLATE", "[${rank}]").set("PET_LOCAL_RANKS_FILTER", "0, 1");
    machine.set("PET_DUPLICATE_STDOUT_FILTERS", "a,b").set("PET_DUPLICATE_STDERR_FILTERS", "c");
    machine.set("PET_LOCAL_ADDR", "10.0.0.1").set("PET_SIGNALS_TO_HANDLE", "SIGUSR1");
    machine.set("PET_SHUTDOWN_TIMEOUT", "5").set("PET_VIRTUAL_LOCAL_RANK", "1");
    machine.set("CPPRUN_PASS_LOCAL_RANK", "1").set("CPPRUN_OMP_THREADS", "3").set("CPPRUN_WORKER_STORE", "rank0");
    machine.set("CPPRUN_EXIT_CODE", "worker").set("CPPRUN_SETTLE_TIME", "0.5s").set("CPPRUN_STORE_BIND", "::1");
    machine.set("CPPRUN_STORE_ALLOW", "10.0.0.0/8, 192.168.0.0/16").set("CPPRUN_STORE_LEGACY", "1");
    machine.set("CPPRUN_RANK_ORDER", "host-first").set("CPPRUN_LOST_AFTER", "2").set("CPPRUN_SILENT_AFTER", "20");
    machine.set("CPPRUN_EXIT_BARRIER_TIMEOUT", "30");
    machine.set("CPPRUN_NO_RESTART_ON", "exit:2,signal:SEGV").set("CPPRUN_FREE_RESTART_ON", "exit:84");
    machine.set("CPPRUN_FORWARD_SIGNALS", "ALRM, SIGUSR2,40").set("CPPRUN_REQUEUE_EXIT_CODE", "99");
    machine.set("CPPRUN_STDIN", "1").set("CPPRUN_HEALTH_FILE", "/tmp/h").set("CPPRUN_HEALTH_PORT", "8080");
    machine.set("CPPRUN_HEALTH_BIND", "[::1]").disk.put("/tmp/", folder());
    machine.set("CPPRUN_MIN_UPTIME", "5").set("CPPRUN_RESTART_BACKOFF", "1:60").set("CPPRUN_RESTART_WINDOW", "3/600");
    machine.set("CPPRUN_RESTART_BUDGET_RENEWED_AFTER", "7200").set("CPPRUN_MAX_JOB_RESTARTS", "4");
    machine.set("CPPRUN_LOG_PREFIX", "rank").set("CPPRUN_COLOR", "always").set("CPPRUN_RANKS_FILTER", "0, 8-15");
    machine.set("CPPRUN_FOLD_LINES", "200ms").set("CPPRUN_PROGRESS_BARS", "all").set("CPPRUN_CAPTURE", "pty");
    const LaunchConfig config = machine.config({"env", "x"});
    EXPECT_EQ(config.logs.prefix_template, "[${rank}] ");
    EXPECT_EQ(config.logs.color, ColorWhen::always);
    ASSERT_EQ(config.logs.ranks_filter.size(), 2U);
    EXPECT_EQ(config.logs.ranks_filter[1].first, 8);
    EXPECT_EQ(config.logs.ranks_filter[1].last, 15);
    EXPECT_EQ(config.logs.fold_window, std::chrono::milliseconds(200));
    EXPECT_EQ(config.logs.progress_bars, ProgressBars::all);
    EXPECT_EQ(config.logs.capture, Capture::pty);
    EXPECT_EQ(config.rendezvous.min_nodes, 2);
    EXPECT_EQ(config.rendezvous.max_nodes, 3);
    EXPECT_EQ(config.nproc_per_node, 2);
    EXPECT_EQ(config.rendezvous.kind, RendezvousKind::c10d);
    EXPECT_EQ(config.rendezvous.endpoint, "host:1");
    EXPECT_EQ(config.rendezvous.run_id, "id");
    EXPECT_EQ(config.rendezvous.conf.at("join_timeout"), "7");
    EXPECT_EQ(config.max_restarts, 10);
    EXPECT_EQ(config.monitor_interval, 2.5);
    EXPECT_EQ(config.program.start_method, "fork");
    EXPECT_EQ(config.event_log_handler, "console");
    EXPECT_EQ(config.role, "r");
    EXPECT_EQ(config.program.kind, ProgramKind::executable);
    EXPECT_EQ(config.logs.base_dir, "/logs");
    EXPECT_EQ(config.logs.redirects.for_all, Std::all);
    EXPECT_EQ(config.logs.tee.of(0), Std::out);
    EXPECT_EQ(config.logs.line_prefix_template, "[${rank}]");
    EXPECT_THAT(config.logs.local_ranks_filter, ElementsAre(0, 1));
    EXPECT_THAT(config.logs.duplicate_stdout_filters, ElementsAre("a", "b"));
    EXPECT_THAT(config.logs.duplicate_stderr_filters, ElementsAre("c"));
    EXPECT_EQ(config.rendezvous.local_addr, "10.0.0.1");
    EXPECT_THAT(config.stop.signals_to_handle, ElementsAre("SIGUSR1"));
    EXPECT_EQ(config.stop.shutdown_timeout, std::chrono::seconds(5));
    EXPECT_TRUE(config.virtual_local_rank);
    EXPECT_TRUE(config.program.pass_local_rank);
    EXPECT_EQ(config.omp_num_threads, "3");
    EXPECT_EQ(config.worker_store, WorkerStore::rank0);
    EXPECT_EQ(config.stop.exit_code, ExitCodePolicy::worker);
    EXPECT_EQ(config.stop.settle_time, std::chrono::milliseconds(500));
    EXPECT_EQ(config.store.bind, "::1");
    EXPECT_THAT(config.store.allow, ElementsAre("10.0.0.0/8", "192.168.0.0/16"));
    EXPECT_TRUE(config.store.legacy);
    EXPECT_EQ(config.rendezvous.rank_order, RankOrder::host_first);
    EXPECT_EQ(config.rendezvous.lost_after, std::chrono::seconds(2));
    EXPECT_EQ(config.rendezvous.silent_after, std::chrono::seconds(20));
    EXPECT_EQ(config.rendezvous.exit_barrier_timeout, std::chrono::seconds(30));
    EXPECT_THAT(config.stop.forward_signals, ElementsAre(14, 12, 40));
    EXPECT_EQ(config.stop.requeue_exit_code, 99);
    EXPECT_EQ(config.stop.stdin_rank, 1);
    EXPECT_EQ(config.health.file, "/tmp/h");
    EXPECT_EQ(config.health.port, 8080);
    EXPECT_EQ(config.health.bind, "::1");
    EXPECT_THAT(config.restart.never_on, ElementsAre(ExitStatus::exited(2), ExitStatus::killed_by(11)));
    EXPECT_THAT(config.restart.free_on, ElementsAre(ExitStatus::exited(84)));
    EXPECT_EQ(config.restart.min_uptime, std::chrono::seconds(5));
    EXPECT_EQ(config.restart.backoff_first, std::chrono::seconds(1));
    EXPECT_EQ(config.restart.backoff_max, std::chrono::seconds(60));
    EXPECT_EQ(config.restart.window_restarts, 3);
    EXPECT_EQ(config.restart.window, std::chrono::seconds(600));
    EXPECT_EQ(config.restart.renewed_after, std::chrono::hours(2));
    EXPECT_EQ(config.restart.job_restarts, 4);
}

TEST(Values, AForwardedSignalIsNotHandledAsWell) {
    const StopConfig stop = FakeMachine().config({"--forward-signals=HUP", "w.py"}).stop;
    EXPECT_THAT(stop.signals_to_handle, ElementsAre("SIGTERM", "SIGINT", "SIGQUIT"));
    EXPECT_THAT(stop.forward_signals, ElementsAre(1));
}

TEST(Values, TorchsVariableForTheHealthPortCountsWhereTheOptionIsNotGiven) {
    EXPECT_EQ(FakeMachine().config({"w.py"}).health.port, std::nullopt);
    EXPECT_EQ(FakeMachine().set("TORCHELASTIC_HEALTH_CHECK_PORT", "81").config({"w.py"}).health.port, 81);
    EXPECT_EQ(FakeMachine().set("TORCHELASTIC_HEALTH_CHECK_PORT", "abc").config({"w.py"}).health.port, std::nullopt);
    EXPECT_EQ(
        FakeMachine().set("TORCHELASTIC_HEALTH_CHECK_PORT", "81").config({"--health-port=82", "w.py"}).health.port, 82);
}

TEST(Values, EndingsOfSeveralOptionsAreCollected) {
    const RestartConfig rules =
        FakeMachine().config({"--no-restart-on=exit:2", "--no-restart-on", "signal:9, exit:3", "w.py"}).restart;
    EXPECT_THAT(rules.never_on, ElementsAre(ExitStatus::exited(2), ExitStatus::killed_by(9), ExitStatus::exited(3)));
    EXPECT_THAT(FakeMachine().set("CPPRUN_NO_RESTART_ON", "").config({"w.py"}).restart.never_on, IsEmpty());
}

TEST(Values, B10TheCommandLineHidesAVariableEvenABadOne) {
    EXPECT_EQ(FakeMachine().set("PET_MAX_RESTARTS", "x").config({"--max-restarts", "1", "w.py"}).max_restarts, 1);
    EXPECT_EQ(FakeMachine().set("PET_ROLE", "$(X)").config({"--role=y", "w.py"}).role, "y");
}

TEST(Values, B10AVariableThatIsSetToNothingIsAnEmptyValue) {
    EXPECT_EQ(FakeMachine().set("PET_ROLE", "").config({"w.py"}).role, "");
    EXPECT_THAT(FakeMachine().set("PET_LOCAL_RANKS_FILTER", "").config({"w.py"}).logs.local_ranks_filter, IsEmpty());
    EXPECT_FALSE(FakeMachine().set("PET_LOCAL_ADDR", "").config({"w.py"}).rendezvous.local_addr);
    EXPECT_FALSE(FakeMachine().set("PET_LOG_DIR", "").config({"w.py"}).logs.base_dir);
    for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_TEE", "PET_REDIRECTS", "PET_MAX_RESTARTS",
                             "PET_MASTER_PORT", "PET_SHUTDOWN_TIMEOUT", "PET_MONITOR_INTERVAL", "PET_START_METHOD"})
        EXPECT_THAT(FakeMachine().set(name, "").usage({"w.py"}), HasSubstr(std::string("set by ") + name));
}

TEST(Values, B10AVariableThatNobodyFilledInIsRefused) {
    EXPECT_EQ(
        FakeMachine().set("PET_NNODES", "$(PET_NNODES)").usage({"w.py"}),
        "argument --nnodes: invalid value: '$(PET_NNODES)': a template that was not filled in (set by PET_NNODES; "
        "accepted: N or MIN:MAX with 1 <= MIN <= MAX)");
    EXPECT_THAT(FakeMachine().set("PET_ROLE", "a${ROLE}").usage({"w.py"}), HasSubstr("set by PET_ROLE"));
    EXPECT_EQ(FakeMachine().set("PET_DUPLICATE_STDOUT_FILTERS", "${x}").config({"w.py"}).logs.duplicate_stdout_filters,
              std::vector<std::string>{"${x}"});
    EXPECT_EQ(FakeMachine().config({"--role=a${ROLE}", "w.py"}).role, "a${ROLE}");
}

TEST(Values, B10FlagVariablesAreReadAsNumbers) {
    for (const char* on : {"1", "-1", " 1 ", "1_0"})
        EXPECT_TRUE(FakeMachine().set("PET_STANDALONE", on).config({"w.py"}).rendezvous.standalone) << on;
    EXPECT_FALSE(FakeMachine().set("PET_STANDALONE", "0").config({"w.py"}).rendezvous.standalone);
    for (const char* bad : {"true", "", "yes", "1.0"}) {
        const std::string wanted = std::string("argument --standalone: invalid int value: '") + bad +
                                   "' (set by PET_STANDALONE; accepted: 1 for on, 0 for off)";
        EXPECT_EQ(FakeMachine().set("PET_STANDALONE", bad).usage({"w.py"}), wanted);
        EXPECT_EQ(FakeMachine().set("PET_STANDALONE", bad).usage({"--standalone", "w.py"}), wanted);
        EXPECT_EQ(FakeMachine().set("PET_STANDALONE", bad).usage({"-h"}), wanted);
    }
}

TEST(Values, VariablesThatTorchrunDoesNotReadAreNotRead) {
    FakeMachine machine;
    machine.set("PET_NUMA_BINDING", "bogus").set("PET_LOGS_SPECS", "bogus").set("PET_PRINT_COMPLETION", "bogus");
    machine.set("PET_HELP", "1").set("PET_VERSION", "1").set("CPPRUN_VERSION", "1").set("PET_EXIT_CODE", "worker");
    EXPECT_THAT(machine.launch({"w.py"}).notices, IsEmpty());
    EXPECT_EQ(machine.config({"w.py"}).stop.exit_code, ExitCodePolicy::torchrun);
}

TEST(Values, NumbersFollowPythonsSyntax) {
    for (const auto& [text, value] : std::map<std::string, int>{{"1_0", 10}, {" 2 ", 2}, {"+3", 3}, {"0", 0}}) {
        EXPECT_EQ(FakeMachine().config({"--max-restarts", text, "w.py"}).max_restarts, value);
        EXPECT_EQ(FakeMachine().set("PET_MAX_RESTARTS", text).config({"w.py"}).max_restarts, value);
    }
    EXPECT_EQ(FakeMachine().config({"--monitor-interval=1e-2", "w.py"}).monitor_interval, 0.01);
}

struct WrongValue {
    std::vector<std::string> line;
    std::string message;  ///< the beginning of it
};

// Every typed option; a bad value is one line with the option, the value and what would be accepted, and exit code 2.
TEST(Values, B03AWrongValueIsOneLineThatNamesOptionAndValue) {
    const std::vector<WrongValue> table{
        {{"--max-restarts=x"}, "argument --max-restarts/--max_restarts: invalid int value: 'x' (accepted: "},
        {{"--max-restarts="}, "argument --max-restarts/--max_restarts: invalid int value: ''"},
        {{"--max-restarts=3.0"}, "argument --max-restarts/--max_restarts: invalid int value: '3.0'"},
        {{"--max-restarts", "-1"}, "argument --max-restarts/--max_restarts: invalid value: '-1' (accepted: "},
        {{"--max-restarts=99999999999999999999"}, "argument --max-restarts/--max_restarts: invalid value: '9999"},
        {{"--monitor-interval=x"}, "argument --monitor-interval/--monitor_interval: invalid float value: 'x'"},
        {{"--monitor-interval=0"}, "argument --monitor-interval/--monitor_interval: invalid value: '0'"},
        {{"--monitor-interval=nan"}, "argument --monitor-interval/--monitor_interval: invalid value: 'nan'"},
        {{"--monitor-interval=inf"}, "argument --monitor-interval/--monitor_interval: invalid value: 'inf'"},
        {{"--monitor-interval=-1"}, "argument --monitor-interval/--monitor_interval: invalid value: '-1'"},
        {{"--nproc_per_node=--work-dir"},
         "argument --nproc-per-node/--nproc_per_node: Unsupported nproc_per_node value: --work-dir (accepted: "},
        {{"--nproc_per_node=GPUS=2"},
         "argument --nproc-per-node/--nproc_per_node: Unsupported nproc_per_node value: GPUS=2"},
        {{"--nproc-per-node=0"}, "argument --nproc-per-node/--nproc_per_node: invalid value: '0'"},
        {{"--nproc-per-node=-1"}, "argument --nproc-per-node/--nproc_per_node: invalid value: '-1'"},
        {{"--nproc-per-node=99999999999"}, "argument --nproc-per-node/--nproc_per_node: invalid value: '99999999999'"},
        {{"--nproc-per-node=2.0"}, "argument --nproc-per-node/--nproc_per_node: Unsupported nproc_per_node value: 2.0"},
        {{"--nproc-per-node="}, "argument --nproc-per-node/--nproc_per_node: Unsupported nproc_per_node value: "},
        {{"--nproc-per-node=CPU"}, "argument --nproc-per-node/--nproc_per_node: Unsupported nproc_per_node value: CPU"},
        {{"--nproc-per-node=gpu"},
         "argument --nproc-per-node/--nproc_per_node: nproc_per_node=gpu: Cuda is not available. (looked at "},
        {{"--nproc-per-node=xpu"},
         "argument --nproc-per-node/--nproc_per_node: nproc_per_node=xpu: Xpu is not available. (looked at "},
        {{"--nnodes=1:2:3"}, "argument --nnodes: invalid value: '1:2:3': not in \"MIN:MAX\" format"},
        {{"--nnodes=1:"}, "argument --nnodes: invalid value: '1:': not a whole number"},
        {{"--nnodes="}, "argument --nnodes: invalid value: ''"},
        {{"--nnodes=2:1"}, "argument --nnodes: invalid value: '2:1': min_nodes must be > 0 and <= max_nodes"},
        {{"--nnodes=0"}, "argument --nnodes: invalid value: '0'"},
        {{"--nnodes", "-1"}, "argument --nnodes: invalid value: '-1'"},
        {{"--redirects=4"}, "argument -r/--redirects: invalid value: '4': does not match: <^[0123]$> or <"},
        {{"-tr3"}, "argument -t/--tee: invalid value: 'r3': does not match: "},
        {{"-t0:1,"}, "argument -t/--tee: invalid value: '0:1,'"},
        {{"--tee="}, "argument -t/--tee: invalid value: ''"},
        {{"--local-ranks-filter=0,,1"}, "argument --local-ranks-filter/--local_ranks_filter: invalid value: '0,,1'"},
        {{"--local-ranks-filter=a"}, "argument --local-ranks-filter/--local_ranks_filter: invalid value: 'a'"},
        {{"--shutdown-timeout=-1"}, "argument --shutdown-timeout/--shutdown_timeout: invalid value: '-1'"},
        {{"--shutdown-timeout=x"}, "argument --shutdown-timeout/--shutdown_timeout: invalid int value: 'x'"},
        {{"--start-method=bogus"},
         "argument --start-method/--start_method: invalid choice: 'bogus' (choose from 'spawn', 'fork', 'forkserver')"},
        {{"--numa-binding=bogus"},
         "argument --numa-binding/--numa_binding: invalid choice: 'bogus' (choose from 'node', 'socket', 'exclusive', "
         "'core-complex')"},
        {{"--print-completion=fish"},
         "argument --print-completion/--print_completion: invalid choice: 'fish' (choose from 'bash', 'zsh', 'tcsh')"},
        {{"--rdzv-backend=bogus"}, "argument --rdzv-backend/--rdzv_backend: invalid value: 'bogus': "},
        {{"--rdzv-backend=C10D"}, "argument --rdzv-backend/--rdzv_backend: invalid value: 'C10D': "},
        {{"--rdzv-backend="}, "argument --rdzv-backend/--rdzv_backend: invalid value: ''"},
        {{"--master-port=x"}, "argument --master-port/--master_port: invalid int value: 'x'"},
        {{"--master-port=65536"}, "argument --master-port/--master_port: invalid value: '65536'"},
        {{"--master-port", "-1"}, "argument --master-port/--master_port: invalid value: '-1'"},
        {{"--node-rank=x"}, "argument --node-rank/--node_rank: invalid int value: 'x'"},
        {{"--forward-signals=bogus"},
         "argument --forward-signals/--forward_signals: invalid value: 'bogus': 'bogus' is no signal (accepted: "},
        {{"--forward-signals=USR1,KILL"},
         "argument --forward-signals/--forward_signals: invalid value: 'USR1,KILL': 'KILL' cannot be caught"},
        {{"--forward-signals=15"},
         "argument --forward-signals/--forward_signals: invalid value: '15': '15' is how a run is ended"},
        {{"--forward-signals=HUP", "--signals-to-handle=SIGHUP"},
         "argument --forward-signals/--forward_signals: invalid value: 'HUP': 'HUP' is in --signals-to-handle too"},
        {{"--requeue-exit-code=256"}, "argument --requeue-exit-code/--requeue_exit_code: invalid value: '256'"},
        {{"--stdin=-1"}, "argument --stdin: invalid value: '-1' (accepted: "},
        {{"--health-port=0"}, "argument --health-port/--health_port: invalid value: '0'"},
        {{"--health-bind=localhost"}, "argument --health-bind/--health_bind: invalid value: 'localhost'"},
        {{"--health-file=/no/dir/x"},
         "argument --health-file/--health_file: invalid value: '/no/dir/x': there is no directory '/no/dir/'"},
        {{"--no-restart-on=exit:0"}, "argument --no-restart-on/--no_restart_on: invalid value: 'exit:0' (accepted: "},
        {{"--no-restart-on=exit:1,2"}, "argument --no-restart-on/--no_restart_on: invalid value: '2' (accepted: "},
        {{"--no-restart-on=exit:84", "--free-restart-on=exit:84"},
         "argument --free-restart-on/--free_restart_on: 'exit:84' is in --no-restart-on too"},
        {{"--min-uptime=-1"}, "argument --min-uptime/--min_uptime: invalid value: '-1'"},
        {{"--restart-backoff=1:x"}, "argument --restart-backoff/--restart_backoff: invalid value: '1:x' (accepted: "},
        {{"--restart-backoff=9:5"},
         "argument --restart-backoff/--restart_backoff: invalid value: '9:5': MAX is less than FIRST"},
        {{"--max-job-restarts=-1"}, "argument --max-job-restarts/--max_job_restarts: invalid value: '-1'"},
        {{"--restart-window=3"}, "argument --restart-window/--restart_window: invalid value: '3' (accepted: "},
        {{"--restart-window=0/5"}, "argument --restart-window/--restart_window: invalid value: '0/5'"},
        {{"--restart-window=3/0"}, "argument --restart-window/--restart_window: invalid value: '3/0'"},
        {{"--restart-budget-renewed-after=soon"},
         "argument --restart-budget-renewed-after/--restart_budget_renewed_after: invalid value: 'soon'"},
        {{"--settle-time=soon"}, "argument --settle-time/--settle_time: invalid value: 'soon'"},
        {{"--rank-order=x"},
         "argument --rank-order/--rank_order: invalid choice: 'x' (choose from 'natural', 'lexicographic', "
         "'host-first')"},
        {{"--lost-after=-1"}, "argument --lost-after/--lost_after: invalid value: '-1' (accepted: a duration"},
        {{"--lost-after=soon"}, "argument --lost-after/--lost_after: invalid value: 'soon'"},
        {{"--silent-after=999ms"}, "argument --silent-after/--silent_after: invalid value: '999ms' (accepted: "},
        {{"--silent-after=inf"}, "argument --silent-after/--silent_after: invalid value: 'inf'"},
        {{"--exit-barrier-timeout=-0.1"}, "argument --exit-barrier-timeout/--exit_barrier_timeout: invalid value: "},
        {{"--exit-barrier-timeout=nan"}, "argument --exit-barrier-timeout/--exit_barrier_timeout: invalid value: "},
        {{"--omp-threads=0"}, "argument --omp-threads/--omp_threads: invalid value: '0'"},
        {{"--omp-threads=many"}, "argument --omp-threads/--omp_threads: invalid value: 'many'"},
        {{"--worker-store=x"},
         "argument --worker-store/--worker_store: invalid choice: 'x' (choose from 'agent', 'rank0')"},
        {{"--exit-code=x"}, "argument --exit-code/--exit_code: invalid choice: 'x'"},
        {{"--cpu-count=x"}, "argument --cpu-count/--cpu_count: invalid choice: 'x'"},
        {{"--master-port-range=5:4"},
         "argument --master-port-range/--master_port_range: invalid value: '5:4' (accepted: two ports from 1 to 65535"},
        {{"--master-port-range=0:4"}, "argument --master-port-range/--master_port_range: invalid value: '0:4' "},
        {{"--master-port-range=1:65536"},
         "argument --master-port-range/--master_port_range: invalid value: '1:65536' "},
        {{"--master-port-range=20000:20009", "--master-port=20000"},
         "argument --master-port-range/--master_port_range: invalid value: '20000:20009': with the static rendezvous"},
        {{"--store-bind=localhost"},
         "argument --store-bind/--store_bind: invalid value: 'localhost' (accepted: one IPv4 or IPv6 address"},
        {{"--store-bind=127.0.0.1,::1"},
         "argument --store-bind/--store_bind: invalid value: '127.0.0.1,::1' (accepted: "},
        {{"--store-allow=10.0.0.0/8, 10.0.0.0/33"},
         "argument --store-allow/--store_allow: invalid value: '10.0.0.0/8, 10.0.0.0/33': '10.0.0.0/33' is no network "
         "(accepted: "},
        {{"--store-allow=,"}, "argument --store-allow/--store_allow: invalid value: ',': '' is no network (accepted: "},
        {{"--role=a", "--max-restarts=a\nb"},
         "argument --max-restarts/--max_restarts: invalid int value: 'a\\nb' (accepted: "},
    };
    for (const WrongValue& row : table) {
        std::vector<std::string> line = row.line;
        line.push_back("w.py");
        EXPECT_THAT(FakeMachine().usage(line), StartsWith(row.message));
    }
}

TEST(Values, TheLineNamesTheVariableThatHeldTheWrongValue) {
    EXPECT_EQ(FakeMachine().set("PET_MAX_RESTARTS", "x").usage({"w.py"}),
              "argument --max-restarts/--max_restarts: invalid int value: 'x' (set by PET_MAX_RESTARTS; accepted: a "
              "whole number of at least 0)");
    EXPECT_THAT(FakeMachine().set("PET_NPROC_PER_NODE", "zwei").usage({"w.py"}),
                HasSubstr("Unsupported nproc_per_node value: zwei (accepted: a whole number, cpu, gpu, xpu, auto"));
    EXPECT_THAT(FakeMachine().set("PET_NPROC_PER_NODE", "zwei").usage({"w.py"}),
                testing::EndsWith(" (set by PET_NPROC_PER_NODE)"));
    EXPECT_THAT(FakeMachine().set("CPPRUN_STORE_ALLOW", "all").usage({"w.py"}),
                StartsWith("argument --store-allow/--store_allow: invalid value: 'all': 'all' is no network (set by "
                           "CPPRUN_STORE_ALLOW; accepted: "));
    EXPECT_THAT(FakeMachine().set("PET_START_METHOD", "bogus").usage({"w.py"}),
                StartsWith("argument --start-method/--start_method: invalid choice: 'bogus' (choose from 'spawn', "
                           "'fork', 'forkserver') (set by PET_START_METHOD)"));
}

TEST(Values, TextsWithAMeaningForTheHelpLibraryPassUnchanged) {
    for (const char* text : {"{}", "%%", "[a,b]", "a,b", "\"x\"", "'", "\xff"})
        EXPECT_EQ(FakeMachine().config({"--role", text, "w.py"}).role, text);
}

TEST(Values, EtcdIsRefusedWithTheNameOfWhatToUse) {
    for (const char* backend : {"etcd", "etcd-v2"})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-backend", backend, "w.py"}), HasSubstr("use c10d"));
}

TEST(Values, StreamsAreChosenForAllOrByRank) {
    const LaunchConfig config = FakeMachine().config({"-r", "3", "--tee=0:1,12:2", "w.py"});
    EXPECT_EQ(config.logs.redirects.of(5), Std::all);
    EXPECT_EQ(config.logs.tee.of(0), Std::out);
    EXPECT_EQ(config.logs.tee.of(12), Std::err);
    EXPECT_EQ(config.logs.tee.of(1), Std::none);
}

TEST(Values, FiltersAreListsInWhichTwoCommasStandForOne) {
    const auto filters = [](const char* text) {
        return FakeMachine().config({"--duplicate-stdout-filters", text, "w.py"}).logs.duplicate_stdout_filters;
    };
    EXPECT_THAT(filters("a,b"), ElementsAre("a", "b"));
    EXPECT_THAT(filters("a,,b,c"), ElementsAre("a,b", "c"));
    EXPECT_THAT(filters(""), ElementsAre(""));
    EXPECT_THAT(FakeMachine().config({"--local-ranks-filter= 1 , 7", "w.py"}).logs.local_ranks_filter,
                ElementsAre(1, 7));
}

TEST(Values, AnEmptyPrefixTemplateOnTheCommandLineHidesTheVariable) {
    FakeMachine machine;
    machine.set("PET_LOG_LINE_PREFIX_TEMPLATE", "P");
    EXPECT_EQ(machine.config({"w.py"}).logs.line_prefix_template, "P");
    EXPECT_EQ(machine.config({"--log-line-prefix-template=C", "w.py"}).logs.line_prefix_template, "C");
    EXPECT_EQ(machine.config({"--log-line-prefix-template=", "w.py"}).logs.line_prefix_template, std::nullopt);
}

TEST(Values, TheLogDirectoryMayNotBeAFile) {
    FakeMachine machine;
    machine.disk.put("/dev/null", {.exists = true, .readable = true});
    machine.disk.put("logs", folder());
    EXPECT_EQ(machine.usage({"--log-dir=w.py", "w.py"}),
              "argument --log-dir/--log_dir: invalid value: 'w.py': it is a file (accepted: a directory, which is made "
              "if missing)");
    EXPECT_EQ(machine.config({"--log-dir=logs", "w.py"}).logs.base_dir, "logs");
    EXPECT_EQ(machine.config({"--log-dir=new/one", "w.py"}).logs.base_dir, "new/one");
    const LogConfig off = machine.config({"--log-dir=/dev/null", "w.py"}).logs;
    EXPECT_TRUE(off.disabled);
    EXPECT_FALSE(off.base_dir);
}

TEST(Values, SignalsThatCannotBeHandledAreLeftOutWithAWarning) {
    const LaunchRequest request =
        FakeMachine().launch({"--signals-to-handle", "SIGTERM, SIGUSR2,sigint,15,SIGKILL,SIGSTOP,SIGBOGUS", "w.py"});
    EXPECT_THAT(request.config.stop.signals_to_handle, ElementsAre("SIGTERM", "SIGUSR2"));
    EXPECT_EQ(request.config.stop.signals_to_handle_text, "SIGTERM, SIGUSR2,sigint,15,SIGKILL,SIGSTOP,SIGBOGUS");
    EXPECT_THAT(
        texts(request.notices),
        ElementsAre("Failed to register signal handler for sigint", "Failed to register signal handler for 15",
                    "Failed to register signal handler for SIGKILL", "Failed to register signal handler for SIGSTOP",
                    "Failed to register signal handler for SIGBOGUS"));
    const LaunchRequest empty = FakeMachine().launch({"--signals-to-handle=", "w.py"});
    EXPECT_THAT(empty.config.stop.signals_to_handle, IsEmpty());
    EXPECT_THAT(texts(empty.notices), ElementsAre("Failed to register signal handler for "));
}

TEST(Values, TheShutdownTimeoutFallsBackToItsVariable) {
    const auto seconds = [](FakeMachine& machine, std::vector<std::string> line) {
        line.push_back("w.py");
        return machine.config(line).stop.shutdown_timeout.count();
    };
    FakeMachine machine;
    machine.set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600");
    EXPECT_EQ(seconds(machine, {}), 600);
    EXPECT_EQ(seconds(machine, {"--shutdown-timeout=0"}), 0);
    EXPECT_EQ(seconds(machine, {"--shutdown-timeout=1_000"}), 1000);
    EXPECT_EQ(seconds(machine, {"--shutdown-timeout=99999999999999999999"}), std::numeric_limits<int>::max());
    machine.set("PET_SHUTDOWN_TIMEOUT", "7");
    EXPECT_EQ(seconds(machine, {}), 7);
    FakeMachine negative;
    negative.set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "-5");
    EXPECT_EQ(seconds(negative, {}), 0);
    EXPECT_THAT(FakeMachine().set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "x").usage({"w.py"}),
                StartsWith("TORCH_ELASTIC_SHUTDOWN_TIMEOUT: invalid int value: 'x'"));
}

TEST(Values, HandlersAndLayoutsOfPythonPackagesAreAcceptedWithAWarning) {
    for (const char* known : {"null", "console", "dynamic_rendezvous"})
        EXPECT_THAT(FakeMachine().launch({"--event-log-handler", known, "w.py"}).notices, IsEmpty());
    EXPECT_THAT(texts(FakeMachine().launch({"--event-log-handler=mine", "w.py"}).notices),
                ElementsAre(HasSubstr("--event-log-handler=mine")));
    EXPECT_THAT(FakeMachine().launch({"--logs-specs=default", "w.py"}).notices, IsEmpty());
    EXPECT_THAT(texts(FakeMachine().launch({"--logs-specs=mine", "w.py"}).notices),
                ElementsAre(HasSubstr("--logs-specs=mine")));
}

TEST(Values, TheStartMethodIsExplainedOnlyWhereItCouldMatter) {
    EXPECT_THAT(FakeMachine().launch({"--start-method=fork", "w.py"}).notices, IsEmpty());
    EXPECT_THAT(texts(FakeMachine().launch({"--start-method=fork", "--run-path", "w.py"}).notices, Notice::Level::info),
                ElementsAre(HasSubstr("--start-method=fork changes nothing")));
}

TEST(Values, NumaBindingTakesItsFourWays) {
    const auto binding = [](const char* way) {
        return FakeMachine().config({"--numa-binding", way, "w.py"}).numa_binding;
    };
    EXPECT_EQ(binding("node"), NumaBinding::node);
    EXPECT_EQ(binding("socket"), NumaBinding::socket);
    EXPECT_EQ(binding("exclusive"), NumaBinding::exclusive);
    EXPECT_EQ(binding("core-complex"), NumaBinding::core_complex);
}

TEST(Values, LogLevelsArePythonsNames) {
    for (const char* level : {"CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET"})
        EXPECT_EQ(FakeMachine().set("LOGLEVEL", level).config({"w.py"}).log_level, level);
    for (const char* bad : {"info", "", "20", "TRACE"})
        for (const char* word : {"w.py", "-h", "--max-restarts=x"})
            EXPECT_THAT(FakeMachine().set("LOGLEVEL", bad).usage({word}),
                        StartsWith(std::string("LOGLEVEL: Unknown level: '") + bad + "'"));
}

TEST(Values, SwitchesFromTheEnvironment) {
    FakeMachine machine;
    machine.set("TORCHELASTIC_ENABLE_FILE_TIMER", "1").set("TORCH_ELASTIC_WORKER_IDENTICAL", "1");
    machine.set("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "2.5");
    const LaunchConfig on = machine.config({"w.py"});
    EXPECT_TRUE(on.file_timer);
    EXPECT_TRUE(on.worker_identical);
    EXPECT_EQ(on.uninterruptible_timeout.count(), 2.5);
    machine.set("TORCHELASTIC_ENABLE_FILE_TIMER", "true").set("TORCH_ELASTIC_WORKER_IDENTICAL", "0");
    for (const char* off : {"", "x", "-1", "nan", "inf", "0"}) {
        machine.set("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", off);
        EXPECT_EQ(machine.config({"w.py"}).uninterruptible_timeout.count(), 0) << off;
    }
    EXPECT_FALSE(machine.config({"w.py"}).file_timer);
    EXPECT_FALSE(machine.config({"w.py"}).worker_identical);
}

TEST(Values, TheWorkersStoreIsOursUnlessToldOtherwise) {
    const auto served_by = [](FakeMachine machine, std::vector<std::string> line) {
        line.push_back("w.py");
        return machine.config(line).worker_store;
    };
    FakeMachine disabled;
    disabled.set("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
    EXPECT_EQ(served_by({}, {}), WorkerStore::agent);
    EXPECT_EQ(served_by({}, {"--worker-store=rank0"}), WorkerStore::rank0);
    EXPECT_EQ(served_by(disabled, {}), WorkerStore::rank0);
    EXPECT_EQ(served_by(disabled, {"--worker-store=agent"}), WorkerStore::agent);
    EXPECT_EQ(served_by(disabled, {"--master-port=29500"}), WorkerStore::agent);  // static is always shared
}

TEST(Values, B13OneThreadForEachOfSeveralWorkersIsSaidInOneLine) {
    const LaunchRequest request = FakeMachine().launch({"--nproc-per-node=2", "w.py"});
    EXPECT_EQ(request.config.omp_num_threads, "1");
    ASSERT_EQ(request.notices.size(), 1U);
    EXPECT_THAT(request.notices[0].text,
                HasSubstr("Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"));
    EXPECT_EQ(request.notices[0].text.find('\n'), std::string::npos);
}

TEST(Values, B13AUsersThreadCountIsNeverChanged) {
    for (const char* value : {"6", ""}) {
        FakeMachine machine;
        machine.set("OMP_NUM_THREADS", value);
        const LaunchRequest request = machine.launch({"--nproc-per-node=2", "w.py"});
        EXPECT_FALSE(request.config.omp_num_threads);
        EXPECT_THAT(request.notices, IsEmpty());
        machine.set("CPPRUN_OMP_THREADS", "3");
        EXPECT_FALSE(machine.config({"--nproc-per-node=2", "w.py"}).omp_num_threads);
        EXPECT_EQ(machine.config({"--omp-threads=4", "w.py"}).omp_num_threads, "4");
    }
}

TEST(Values, B13AutoDividesTheProcessors) {
    FakeMachine machine;
    machine.host.cpu.affinity = {0, 1, 2, 3};
    const auto threads = [&machine](std::vector<std::string> line) {
        line.insert(line.begin(), {"--omp-threads", "auto"});
        line.push_back("w.py");
        return machine.config(line).omp_num_threads;
    };
    EXPECT_EQ(threads({"--nproc-per-node=2"}), "2");
    EXPECT_EQ(threads({"--nproc-per-node=3"}), "1");
    EXPECT_EQ(threads({"--nproc-per-node=9"}), "1");
    EXPECT_EQ(threads({}), "4");
    machine.host.cpu.quota_cpus = 2.0;
    EXPECT_EQ(threads({"--nproc-per-node=2"}), "1");
    EXPECT_EQ(threads({"--nproc-per-node=2", "--cpu-count=affinity"}), "2");
    EXPECT_THAT(machine.launch({"--omp-threads=auto", "--nproc-per-node=2", "w.py"}).notices, IsEmpty());
}

TEST(Values, WordsForTheNumberOfWorkers) {
    FakeMachine machine;
    EXPECT_EQ(machine.config({"--nproc-per-node=cpu", "--omp-threads=1", "w.py"}).nproc_per_node, 2);
    EXPECT_EQ(machine.config({"--nproc-per-node=auto", "w.py"}).nproc_per_node, 2);
    machine.host.cpu.affinity = {1};
    machine.probes = 0;
    const LaunchConfig config = machine.config({"--nproc-per-node=cpu", "w.py"});
    EXPECT_EQ(config.nproc_per_node, 1);
    EXPECT_EQ(config.nproc_text, "cpu");
    EXPECT_FALSE(config.nproc_explanation.empty());
    EXPECT_EQ(machine.probes, 0);
    machine.devices.devices = {Device{.index = 0}, Device{.index = 1}, Device{.index = 2}};
    EXPECT_EQ(machine.config({"--nproc-per-node=gpu", "w.py"}).nproc_per_node, 3);
    EXPECT_EQ(machine.probes, 1);
    EXPECT_TRUE(machine.drivers_asked);
    EXPECT_EQ(machine.config({"--nproc-per-node= 1_0 ", "w.py"}).nproc_per_node, 10);
    EXPECT_FALSE(machine.drivers_asked);  // for a number the files are enough
}

TEST(Values, B26TheQuotaCountsUnlessToldOtherwise) {
    FakeMachine machine;
    machine.host.cpu.affinity = {0, 1, 2, 3, 4, 5, 6, 7};
    machine.host.cpu.quota_cpus = 1.5;
    EXPECT_EQ(machine.config({"--nproc-per-node=cpu", "w.py"}).nproc_per_node, 2);
    EXPECT_EQ(machine.config({"--nproc-per-node=cpu", "--cpu-count=affinity", "w.py"}).nproc_per_node, 8);
}

TEST(Values, OnlyAWordThatCountsDevicesAsksTheirDrivers) {
    for (const char* count : {"4", "cpu"}) {
        FakeMachine machine;
        machine.launch({"--nproc-per-node", count, "w.py"});
        EXPECT_EQ(machine.probes, 1) << count;
        EXPECT_FALSE(machine.drivers_asked) << count;
    }
    FakeMachine machine;
    machine.launch({"--nproc-per-node=auto", "w.py"});
    EXPECT_EQ(machine.probes, 1);
    EXPECT_TRUE(machine.drivers_asked);
}

TEST(Values, B28MoreWorkersThanDevicesIsAWarningOrWithStrictDevicesAnError) {
    FakeMachine machine;
    machine.set("OMP_NUM_THREADS", "1");
    machine.devices.devices = {Device{.index = 0}, Device{.index = 1}};
    EXPECT_EQ(texts(machine.launch({"--nproc-per-node=4", "w.py"}).notices).size(), 1U);
    EXPECT_THAT(machine.usage({"--nproc-per-node=4", "--strict-devices", "w.py"}),
                StartsWith("argument --nproc-per-node/--nproc_per_node: invalid value: '4': "));
    EXPECT_THAT(machine.launch({"--nproc-per-node=2", "--strict-devices", "w.py"}).notices, IsEmpty());
    machine.devices.devices.clear();
    EXPECT_THAT(machine.launch({"--nproc-per-node=4", "--strict-devices", "w.py"}).notices, IsEmpty());
}

TEST(Values, B17TooFewDevicesForVirtualLocalRanksIsAnErrorBeforeTheStart) {
    FakeMachine machine;
    machine.set("CUDA_VISIBLE_DEVICES", "3");
    EXPECT_THAT(machine.usage({"--virtual-local-rank", "--nproc-per-node=2", "w.py"}),
                HasSubstr("local_rank 1 exceeds available GPUs in CUDA_VISIBLE_DEVICES=3"));
    EXPECT_TRUE(machine.config({"--virtual-local-rank", "w.py"}).virtual_local_rank);
    machine.set("HIP_VISIBLE_DEVICES", "0,1").set("OMP_NUM_THREADS", "1");
    EXPECT_TRUE(machine.config({"--virtual-local-rank", "--nproc-per-node=2", "w.py"}).virtual_local_rank);
}

struct Tasks {
    const char* per_node;
    const char* node;
    const char* own;
    const char* nproc;
    int launchers;  // 0: no remark
};

TEST(Values, B22ALauncherForEachTaskIsOneWarningOfTheFirstTask) {
    const Tasks table[] = {{"8", "0", "0", "2", 8},     {"8", "0", "1", "2", 0},       {"1", "0", "0", "2", 0},
                           {"8", "0", "0", "1", 0},     {"1(x2),4", "2", "0", "2", 4}, {"1(x2),4", "1", "0", "2", 0},
                           {"2(x3)", "2", "0", "2", 2}, {"2(x3", "0", "0", "2", 0},    {"", "0", "0", "2", 0}};
    for (const Tasks& row : table) {
        FakeMachine machine;
        machine.set("SLURM_STEP_TASKS_PER_NODE", row.per_node).set("SLURM_NODEID", row.node);
        machine.set("SLURM_LOCALID", row.own).set("OMP_NUM_THREADS", "1");
        const auto notices = machine.launch({std::string("--nproc-per-node=") + row.nproc, "w.py"}).notices;
        ASSERT_EQ(notices.size(), row.launchers == 0 ? 0U : 1U) << row.per_node << " " << row.node << " " << row.own;
        if (row.launchers > 0)
            EXPECT_THAT(notices.front().text, StartsWith("the batch system starts " + std::to_string(row.launchers) +
                                                         " launchers on this node (SLURM_STEP_TASKS_PER_NODE="));
    }
}

TEST(Values, B22TheWarningCanBeSilenced) {
    FakeMachine machine;
    machine.set("SLURM_STEP_TASKS_PER_NODE", "8").set("SLURM_NODEID", "0").set("SLURM_LOCALID", "0");
    machine.set("OMP_NUM_THREADS", "1");
    EXPECT_EQ(machine.launch({"--nproc-per-node=2", "w.py"}).notices.size(), 1U);
    EXPECT_THAT(machine.launch({"--nproc-per-node=2", "--no-task-warning", "w.py"}).notices, IsEmpty());
}

TEST(Values, B22OtherStartersOfTasksAreKnownAndABatchScriptIsNone) {
    FakeMachine machine;
    machine.set("SLURM_NTASKS_PER_NODE", "8").set("SLURM_LOCALID", "0").set("OMP_NUM_THREADS", "1");
    EXPECT_THAT(machine.launch({"--nproc-per-node=2", "w.py"}).notices, IsEmpty());
    machine.set("OMPI_COMM_WORLD_LOCAL_SIZE", "4").set("OMPI_COMM_WORLD_LOCAL_RANK", "0");
    EXPECT_EQ(machine.launch({"--nproc-per-node=2", "w.py"}).notices.size(), 1U);
}

}  // namespace
}  // namespace cpprun::test
