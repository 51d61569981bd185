#include "client/fleet/cluster_options.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

ClusterOptions listed(const std::string& nodes) {
  ClusterOptions options;
  options.nodes = nodes;
  return options;
}

std::string refusal(const ClusterOptions& options) {
  const auto epoch = options.epoch();
  return epoch ? "taken" : epoch.error().message;
}

TEST(ClusterOptions, ListNamesNodesAndWhereTheyAre) {
  const auto nodes = listed("a=/run/a.sock,b=tcp://10.0.0.2:7010,c=tcp://[::1]:7").list().value();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].name, "a");
  EXPECT_EQ(nodes[0].address.path, "/run/a.sock");
  EXPECT_EQ(nodes[1].name, "b");
  EXPECT_EQ(nodes[1].address.host, "10.0.0.2");
  EXPECT_EQ(nodes[2].address.port, 7);
}

TEST(ClusterOptions, EpochIsOfTheNamesAndNotOfTheAddresses) {
  const Epoch here = listed("a=/run/a.sock,b=/run/b.sock").epoch().value();
  const Epoch there = listed("b=tcp://10.0.0.2:7010,a=tcp://10.0.0.1:7010").epoch().value();
  EXPECT_EQ(here.identity(), there.identity());
  EXPECT_EQ(here.number, 1u);
  EXPECT_EQ(here.replicas, 2u);
  EXPECT_NE(listed("a=/run/a.sock,c=/run/b.sock").epoch().value().identity(), here.identity());
}

TEST(ClusterOptions, ListsThatCannotHoldAreRefusedInASentence) {
  EXPECT_EQ(refusal(listed("a=/x,b=/y")), "taken");
  EXPECT_NE(refusal(listed("a=/x,a=/y")).find("'a' twice"), std::string::npos);
  EXPECT_NE(refusal(listed("a=/x,/y")).find("'/y' is not NAME=ADDRESS"), std::string::npos);
  EXPECT_NE(refusal(listed("=/x")).find("NAME=ADDRESS"), std::string::npos);
  EXPECT_NE(refusal(listed("a=/x,,b=/y")).find("NAME=ADDRESS"), std::string::npos);
  EXPECT_NE(refusal(listed("a=/x;b=/y")).find("separate entries by commas"), std::string::npos);
  EXPECT_NE(refusal(listed("a=10.0.0.1:7010,b=/y")).find("cluster.nodes: "), std::string::npos);
  EXPECT_NE(refusal(listed("a=/x")).find("2 replicas on 1 nodes"), std::string::npos);
  ClusterOptions none = listed("a=/x,b=/y");
  none.replicas = 0;
  EXPECT_NE(refusal(none).find("0 replicas"), std::string::npos);
}

TEST(ClusterOptions, AddressesThatMeanSomethingElseElsewhereAreRefused) {
  for (const char* nodes : {"a=tcp://127.0.0.1:1,b=tcp://localhost:2", "a=/x,b=tcp://[::1]:2",
                            "a=tcp://10.0.0.1:1,b=tcp://node7:2"}) {
    EXPECT_EQ(refusal(listed(nodes)), "taken") << nodes;
  }
  for (const char* nodes :
       {"a=tcp://10.0.0.1:1,b=tcp://0.0.0.0:2", "a=tcp://[::]:1,b=tcp://10.0.0.1:2",
        "a=tcp://127.0.0.1:1,b=tcp://0.0.0.0:2", "a=tcp://[::ffff:0.0.0.0]:1,b=tcp://10.0.0.1:2",
        "a=tcp://10.0.0.1:1,b=tcp://[fe80::1]:2", "a=tcp://10.0.0.1:0,b=tcp://10.0.0.2:2"}) {
    EXPECT_NE(refusal(listed(nodes)).find("cluster.nodes, of the node '"), std::string::npos)
        << nodes << ": " << refusal(listed(nodes));
  }
  for (const char* near : {"tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1", "/x",
                           "tcp://[::ffff:127.0.0.1]:1"}) {
    const std::string nodes = std::string("a=tcp://10.0.0.1:1,b=") + near;
    EXPECT_NE(refusal(listed(nodes)).find("of the node 'b', leads every host to itself"),
              std::string::npos)
        << nodes << ": " << refusal(listed(nodes));
  }
}

}  // namespace
}  // namespace farpage
