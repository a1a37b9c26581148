// SPDX-License-Identifier: BSD-3-Clause
// Contract 2.1 to 2.5; observed cases 48 to 56; user cases B07, B09, B11.
#include "cli/endpoint.hpp"
#include "unit/cli/fake_machine.hpp"

#include <gmock/gmock.h>

namespace cpprun::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using List = std::vector<std::string>;

const std::string fresh_id = FakeMachine().host.random_uuid;

List with_script(List line) {
    line.push_back("w.py");
    return line;
}

void expect_local(const RendezvousConfig& config) {
    EXPECT_EQ(config.kind, RendezvousKind::c10d);
    EXPECT_EQ(config.endpoint, "localhost:0");
    EXPECT_EQ(config.host, "localhost");
    EXPECT_EQ(config.port, 0);
    EXPECT_EQ(config.run_id, fresh_id);
    EXPECT_EQ(config.node_rank, 0);
    EXPECT_FALSE(config.endpoint_given);
    EXPECT_EQ(config.conf.at("timeout"), "900");
}

TEST(Rendezvous, APlainLaunchOnOneNodeTakesAFreePort) {
    for (const List& line : {List{},
                             {"--rdzv-backend=static"},
                             {"--master-addr=10.1.2.3"},
                             {"--rdzv-id=keep"},
                             {"--nnodes=1:1"},
                             {"--nnodes= 1 : 1 "}}) {
        const LaunchRequest request = FakeMachine().launch(with_script(line));
        expect_local(request.config.rendezvous);
        EXPECT_FALSE(request.config.rendezvous.standalone);
        EXPECT_THAT(request.notices, IsEmpty());
    }
    expect_local(FakeMachine().set("PET_RDZV_ID", "lost").config({"w.py"}).rendezvous);
}

TEST(Rendezvous, StandaloneOverridesWhateverElseWasSaid) {
    const LaunchRequest request =
        FakeMachine().launch({"--standalone", "--rdzv-backend=bogus", "--rdzv-endpoint=foo", "--rdzv-id=bar",
                              "--master-addr=x", "--master-port=1", "--rdzv-conf=join_timeout=2", "w.py"});
    expect_local(request.config.rendezvous);
    EXPECT_TRUE(request.config.rendezvous.standalone);
    EXPECT_EQ(request.config.rendezvous.conf.at("join_timeout"), "2");
    EXPECT_THAT(request.notices, IsEmpty());
    EXPECT_EQ(FakeMachine().config({"--standalone", "--nnodes=1:2", "w.py"}).rendezvous.max_nodes, 2);
}

TEST(Rendezvous, AMasterPortMakesItStatic) {
    FakeMachine by_variable;
    by_variable.set("PET_MASTER_PORT", "1234");
    for (const RendezvousConfig& config :
         {FakeMachine().config({"--master-port=1234", "w.py"}).rendezvous, by_variable.config({"w.py"}).rendezvous}) {
        EXPECT_EQ(config.kind, RendezvousKind::static_ranks);
        EXPECT_EQ(config.endpoint, "127.0.0.1:1234");
        EXPECT_EQ(config.host, "127.0.0.1");
        EXPECT_EQ(config.port, 1234);
        EXPECT_EQ(config.run_id, "none");
        EXPECT_FALSE(config.endpoint_given);
    }
    const RendezvousConfig named =
        FakeMachine().config({"--master-addr=localhost", "--master-port=5", "w.py"}).rendezvous;
    EXPECT_EQ(named.host, "localhost");
    EXPECT_TRUE(named.endpoint_given);
}

TEST(Rendezvous, SeveralNodesWithoutAnythingElseMeetOnTorchrunsPort) {
    for (const char* nodes : {"2", "1:2"}) {
        const RendezvousConfig config = FakeMachine().config({"--nnodes", nodes, "--node-rank=1", "w.py"}).rendezvous;
        EXPECT_EQ(config.kind, RendezvousKind::static_ranks);
        EXPECT_EQ(config.endpoint, "127.0.0.1:29500");
        EXPECT_EQ(config.min_nodes, 2);  // static waits for the largest number
        EXPECT_EQ(config.max_nodes, 2);
        EXPECT_EQ(config.node_rank, 1);
    }
}

TEST(Rendezvous, AnEndpointBeatsMasterAddressAndPort) {
    const RendezvousConfig config =
        FakeMachine().config({"--rdzv-endpoint=localhost:7", "--master-addr=x", "--master-port=8", "w.py"}).rendezvous;
    EXPECT_EQ(config.endpoint, "localhost:7");
    EXPECT_EQ(config.port, 7);
    EXPECT_TRUE(config.endpoint_given);
}

TEST(Rendezvous, C10dHasDefaultsForHostAndPort) {
    const LaunchRequest request = FakeMachine().launch({"--rdzv-backend=c10d", "w.py"});
    EXPECT_EQ(request.config.rendezvous.host, "localhost");
    EXPECT_EQ(request.config.rendezvous.port, 29400);
    EXPECT_EQ(request.config.rendezvous.run_id, "none");
    EXPECT_THAT(texts(request.notices), ElementsAre("master_addr is only used for static rdzv_backend and when "
                                                    "rdzv_endpoint is not specified."));
    const LaunchRequest host = FakeMachine().launch({"--rdzv-backend=c10d", "--rdzv-endpoint=node1", "--rdzv-id=myid",
                                                     "--nnodes=1:4", "--local-addr=10.0.0.2", "w.py"});
    EXPECT_EQ(host.config.rendezvous.host, "node1");
    EXPECT_EQ(host.config.rendezvous.port, 29400);
    EXPECT_EQ(host.config.rendezvous.run_id, "myid");
    EXPECT_EQ(host.config.rendezvous.min_nodes, 1);
    EXPECT_EQ(host.config.rendezvous.max_nodes, 4);
    EXPECT_EQ(host.config.rendezvous.local_addr, "10.0.0.2");
    EXPECT_THAT(host.notices, IsEmpty());
}

TEST(Rendezvous, ANodeRankThatIsNotUsedIsSaidInTorchrunsWords) {
    const std::string words =
        "node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=c10d.";
    for (const List& line : {List{"--node-rank=5"},
                             {"--standalone", "--node-rank=5"},
                             {"--rdzv-backend=c10d", "--rdzv-endpoint=h", "--node-rank=1"}}) {
        const LaunchRequest request = FakeMachine().launch(with_script(line));
        EXPECT_THAT(texts(request.notices), ElementsAre(words));
        EXPECT_EQ(request.config.rendezvous.node_rank, 0);
    }
    EXPECT_THAT(texts(FakeMachine().set("PET_NODE_RANK", "5").launch({"w.py"}).notices), ElementsAre(words));
    EXPECT_THAT(FakeMachine().launch({"--node-rank=0", "w.py"}).notices, IsEmpty());
}

TEST(Rendezvous, ANodeRankOutsideTheJobIsRefused) {
    EXPECT_THAT(FakeMachine().usage({"--master-port=1", "--node-rank=5", "w.py"}),
                StartsWith("argument --node-rank/--node_rank: invalid value: '5': the job has 1 node(s)"));
    EXPECT_THAT(FakeMachine().usage({"--nnodes=2", "--node-rank=-1", "w.py"}), HasSubstr("'-1'"));
}

TEST(Rendezvous, ARunWithoutAnIdGetsARandomNumber) {
    const LaunchRequest request = FakeMachine().launch({"--master-port=1", "--rdzv-id=", "w.py"});
    // 0x0123456789ab4cde8f0123456789abcd
    EXPECT_EQ(request.config.rendezvous.run_id, "1512366075203561440401213591292324813");
    EXPECT_THAT(texts(request.notices), ElementsAre("config has no run_id, generated a random run_id: "
                                                    "1512366075203561440401213591292324813"));
}

TEST(Rendezvous, AStaticEndpointNeedsAPort) {
    EXPECT_THAT(FakeMachine().usage({"--rdzv-endpoint=localhost", "w.py"}),
                HasSubstr("port is missing in endpoint: localhost. Try to specify --master-port"));
    EXPECT_EQ(FakeMachine().config({"--master-port=0", "w.py"}).rendezvous.port, 0);
    EXPECT_THAT(FakeMachine().usage({"--nnodes=2", "--master-port=0", "w.py"}),
                StartsWith("argument --master-port/--master_port: invalid value: '0'"));
}

TEST(Rendezvous, WrongEndpointsAreRefused) {
    for (const char* endpoint : {"localhost:65536", "localhost:x", "localhost:", "h:123456", "[::1]:", "[::1]:-1"})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-endpoint", endpoint, "w.py"}),
                    HasSubstr("the port number must be an integer between 0 and 65535"))
            << endpoint;
    for (const char* endpoint : {":29500", "a b:1", "h/x:1", "[::1:1", "[]:1"})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-endpoint", endpoint, "w.py"}), HasSubstr("the hostname must be"))
            << endpoint;
    EXPECT_THAT(FakeMachine().usage({"--master-addr=", "--master-port=1", "w.py"}),
                StartsWith("argument --master-addr/--master_addr: invalid value: '': the hostname must be"));
}

struct EndpointCase {
    std::string text;
    std::string host;
    std::optional<int> port;
};

TEST(Rendezvous, B09EndpointsWithAndWithoutPortAndBrackets) {
    const std::vector<EndpointCase> table{
        {"host", "host", {}},
        {" host:1 ", "host", 1},
        {"10.0.0.1:29500", "10.0.0.1", 29500},
        {"a_b-c.d:00080", "a_b-c.d", 80},
        {"[::1]", "::1", {}},
        {"[::1]:29804", "::1", 29804},
        {"::1:29804", "::1", 29804},
        {"::1", "::1", {}},
        {"::", "::", {}},
        {"fd00::1", "fd00::1", {}},
        {"fd00::1:29500", "fd00::1", 29500},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", {}},
        {"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8", 9},
        {"fe80::1%eth0", "fe80::1%eth0", {}},
        {"fe80::1%eth0:29500", "fe80::1%eth0", 29500},
        {"[fe80::1%eth0]:29500", "fe80::1%eth0", 29500},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.1", {}},
        {"::ffff:10.0.0.1:80", "::ffff:10.0.0.1", 80},
        {"fd00::1:abcd", "fd00::1:abcd", {}},
        {"[host]:80", "host", 80},
    };
    for (const EndpointCase& row : table) {
        const Endpoint endpoint = parse_endpoint(row.text);
        EXPECT_EQ(endpoint.problem, "") << row.text;
        EXPECT_EQ(endpoint.host, row.host) << row.text;
        EXPECT_EQ(endpoint.port, row.port) << row.text;
    }
    for (const char* text : {"[::1]:7", "::1:7"})
        EXPECT_EQ(FakeMachine().config({"--rdzv-endpoint", text, "w.py"}).rendezvous.host, "::1");
    for (const char* text : {"[::1]", "::1"}) {
        const RendezvousConfig config =
            FakeMachine().config({"--master-addr", text, "--master-port=7", "w.py"}).rendezvous;
        EXPECT_EQ(config.host, "::1");
        EXPECT_EQ(config.port, 7);
        EXPECT_EQ(parse_endpoint(config.endpoint).host, "::1");
    }
}

TEST(Rendezvous, B09KnowsAnIpv6AddressWhenItSeesOne) {
    for (const char* good : {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::8", "1:2:3:4:5:6:7::", "ABCD:ef::12",
                             "::1.2.3.4", "64:ff9b::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "fe80::1%1"})
        EXPECT_TRUE(is_ipv6_address(good)) << good;
    for (const char* bad : {"", ":", ":::", "1", "1:2", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3",
                            "12345::", "g::", "1:2:3:4:5:6:7:8::", "::1.2.3", "::1.2.3.256", "1.2.3.4::", "::01.2.3.4",
                            "::%", "fe80::1%a b", ":1::2", "1::2:"})
        EXPECT_FALSE(is_ipv6_address(bad)) << bad;
}

TEST(Rendezvous, B07RepeatedSettingsAreMergedKeyByKey) {
    const auto conf = FakeMachine()
                          .config({"--rdzv-conf", "timeout=7,join_timeout=1", "--rdzv-conf",
                                   " last_call_timeout = 3 , join_timeout=2", "w.py"})
                          .rendezvous.conf;
    EXPECT_EQ(conf, (std::map<std::string, std::string>{
                        {"timeout", "7"}, {"join_timeout", "2"}, {"last_call_timeout", "3"}}));
    FakeMachine machine;
    machine.set("PET_RDZV_CONF", "timeout=9,close_timeout=1");
    EXPECT_EQ(machine.config({"w.py"}).rendezvous.conf.at("close_timeout"), "1");
    EXPECT_FALSE(machine.config({"--rdzv-conf=timeout=8", "w.py"}).rendezvous.conf.contains("close_timeout"));
}

TEST(Rendezvous, B07UnknownKeysAreKeptWithAWarning) {
    const LaunchRequest request = FakeMachine().launch({"--rdzv-conf=fooo=a=b", "w.py"});
    EXPECT_EQ(request.config.rendezvous.conf.at("fooo"), "a=b");
    EXPECT_THAT(texts(request.notices),
                ElementsAre(testing::AllOf(HasSubstr("'fooo'"), HasSubstr("last_call_timeout"))));
}

TEST(Rendezvous, B07BrokenSettingsAreRefused) {
    for (const char* conf : {"a", "a=", "b=1,a", "a= "})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-conf", conf, "w.py"}),
                    HasSubstr("The rendezvous configuration option 'a' must have a value specified."));
    for (const char* conf : {",", "a=b,", "=b"})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-conf", conf, "w.py"}),
                    HasSubstr("must be in format <key1>=<value1>,...,<keyN>=<valueN>."));
    for (const char* conf : {"timeout=x", "join_timeout=0", "last_call_timeout=-1", "read_timeout=nan", "timeout=inf",
                             "is_host=maybe", "keep_alive_interval=0", "keep_alive_max_attempt=0",
                             "cas_backoff_max_seconds=inf", "cas_backoff_max_seconds=-1", "store_type=redis"})
        EXPECT_THAT(FakeMachine().usage({"--rdzv-backend=c10d", "--rdzv-conf", conf, "w.py"}),
                    HasSubstr("does not represent"))
            << conf;
    for (const char* host : {"1", "0", "True", "t", "NO", "y"})
        EXPECT_EQ(
            FakeMachine().config({"--rdzv-conf", std::string("is_host=") + host, "w.py"}).rendezvous.conf.at("is_host"),
            host);
}

TEST(Rendezvous, TimesMayHaveFractions) {
    for (const char* key : {"timeout", "read_timeout", "join_timeout", "last_call_timeout", "close_timeout",
                            "heartbeat_timeout", "keep_alive_interval"})
        EXPECT_EQ(FakeMachine()
                      .config({"--rdzv-backend=c10d", "--rdzv-conf", std::string(key) + "=0.5", "w.py"})
                      .rendezvous.conf.at(key),
                  "0.5");
    EXPECT_THAT(FakeMachine().usage({"--rdzv-backend=c10d", "--rdzv-conf=keep_alive_max_attempt=1.5", "w.py"}),
                HasSubstr("does not represent a valid integer value above 0: '1.5'"));
    EXPECT_THAT(FakeMachine().usage({"--rdzv-backend=c10d", "--rdzv-conf=join_timeout=0.0", "w.py"}),
                HasSubstr("does not represent a valid number above 0: '0.0'"));
}

TEST(Rendezvous, StaticReadsItsTimeoutOnly) {
    const auto conf =
        FakeMachine().config({"--master-port=1", "--rdzv-conf=join_timeout=x,timeout=5", "w.py"}).rendezvous.conf;
    EXPECT_EQ(conf.at("timeout"), "5");
}

TEST(Rendezvous, AFileStoreNamesAPathAsItsEndpoint) {
    const RendezvousConfig config =
        FakeMachine()
            .config({"--rdzv-backend=c10d", "--rdzv-endpoint=/tmp/a:b", "--rdzv-conf=store_type=file", "w.py"})
            .rendezvous;
    EXPECT_EQ(config.host, "/tmp/a:b");
    EXPECT_FALSE(config.port);
}

TEST(Rendezvous, AFileStoreForSeveralNodesIsRefused) {
    EXPECT_THAT(FakeMachine().usage({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=/tmp/a",
                                     "--rdzv-conf=store_type=file", "w.py"}),
                StartsWith("argument --rdzv-conf/--rdzv_conf: store_type=file: several nodes cannot meet in a file"));
}

TEST(Rendezvous, B75B76TheOrderOfNodesCanBeChosen) {
    EXPECT_EQ(FakeMachine().config({"w.py"}).rendezvous.rank_order, RankOrder::natural);
    EXPECT_EQ(FakeMachine().config({"--rank-order=lexicographic", "w.py"}).rendezvous.rank_order,
              RankOrder::lexicographic);
    EXPECT_EQ(FakeMachine().config({"--rank_order", "host-first", "w.py"}).rendezvous.rank_order,
              RankOrder::host_first);
}

TEST(Rendezvous, B95HowLongToWaitForOthersCanBeChosen) {
    using std::chrono::milliseconds;
    const RendezvousConfig usual = FakeMachine().config({"w.py"}).rendezvous;
    EXPECT_EQ(usual.lost_after, milliseconds(1'000));
    EXPECT_EQ(usual.silent_after, milliseconds(10'000));
    EXPECT_EQ(usual.exit_barrier_timeout, milliseconds(300'000));
    const RendezvousConfig other =
        FakeMachine()
            .config({"--lost-after=0.25", "--silent-after=1500ms", "--exit-barrier-timeout=7.5", "w.py"})
            .rendezvous;
    EXPECT_EQ(other.lost_after, milliseconds(250));
    EXPECT_EQ(other.silent_after, milliseconds(1'500));
    EXPECT_EQ(other.exit_barrier_timeout, milliseconds(7'500));
    const auto barrier = [](const char* value) {
        return FakeMachine().config({"--exit-barrier-timeout", value, "w.py"}).rendezvous.exit_barrier_timeout;
    };
    EXPECT_EQ(barrier("0"), milliseconds(0));
    EXPECT_EQ(barrier("inf"), milliseconds::max());
    EXPECT_EQ(barrier("1e300"), milliseconds::max());
    EXPECT_EQ(FakeMachine().config({"--lost-after=0", "w.py"}).rendezvous.lost_after, milliseconds(0));
}

TEST(Rendezvous, B11VariablesOfAnOuterPlatformAreNotRead) {
    FakeMachine machine;
    machine.set("RANK", "7").set("WORLD_SIZE", "99").set("LOCAL_RANK", "5").set("MASTER_ADDR", "x");
    machine.set("MASTER_PORT", "1").set("NODE_RANK", "3");
    const LaunchRequest request = machine.launch({"w.py"});
    expect_local(request.config.rendezvous);
    EXPECT_THAT(request.notices, IsEmpty());
}

}  // namespace
}  // namespace cpprun::test
