"""A fleet whose members and epochs are in a real etcd, for a Case."""

from faults import Pace
from program import wait_until

NAMES = ("a", "b", "c")
TTL_S = 2
PACE = Pace(page_bytes=4096, lease_ms=1000, reuse_ms=100, requests=800_000)


class EtcdFleet:
    def reach(self, etcd, *more):
        words = [f"etcd.endpoints={etcd.endpoints}", *more]
        return [word for setting in words for word in ("--set", setting)]

    def node_words(self, etcd, name, *more):
        return [*PACE.node(), *self.reach(etcd, f"cluster.name={name}", f"etcd.ttl_s={TTL_S}", *more)]

    def start_member(self, etcd, name, *more):
        return self.start_node(*self.node_words(etcd, name, *more), name=name, listen="tcp://127.0.0.1:0")

    def start_fleet(self, etcd, names=NAMES, *more):
        nodes = {name: self.start_member(etcd, name, *more) for name in names}
        for node in nodes.values():
            self.assertTrue(wait_until(lambda: self.reached(node) == len(names) - 1))
        return nodes

    def reached(self, node):
        return sum(other["reached"] for other in self.status(node)["fleet"]["others"])

    def members(self, etcd):
        return len(etcd.epoch().get("members", []))

    def live(self, nodes):
        return {name: self.status(node)["slots_live"] for name, node in nodes.items()}

    def write_trace(self, requests):
        trace = self.folder / "trace.jsonl"
        with open(trace, "w", encoding="utf-8") as file:
            for time_ms, ids in enumerate(requests):
                file.write(f'{{"timestamp": {time_ms}, "input_length": 1, "output_length": 1, "hash_ids": {ids}}}\n')
        return trace

    def replay_once(self, etcd, requests):
        return self.replay_result(self.start_program(
            "replay", self.write_trace(requests), "--page-bytes", PACE.page_bytes, "--json", "-", *self.reach(etcd)))
