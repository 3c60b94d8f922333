"""A network of its own for every node: namespaces on one bridge, cut and hurt by nftables and tc.

Owns: the namespaces, the bridge, the rules, and the packets that the rules have struck.
Must not know: what runs in a namespace. Needs root, `ip`, `nft` and `tc`; without, NOT RUN.

    this process ── bridge 10.203.N.254 ──┬── node 1: 10.203.N.1
                                          ├── node 2: 10.203.N.2
                                          └── …

A rule counts what it drops, a thin line what it holds back: a fault that struck no packet did not
happen.

Invariants: what was made is removed with the block; a healed node has no rule left.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from tests.conftest import not_run

COMMAND_TIMEOUT_S = 30
TABLE = "faults"
NETWORKS = 250
CLIENT = 254
"""The last byte of the address of this process."""


def run(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if check:
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


class Network:
    def __init__(self, nodes: Sequence[int]) -> None:
        self._tag = ""
        self._subnet = ""
        self._bridge = ""
        self._nodes = list(nodes)
        self.hurt: set[int] = set()

    def address(self, node: int) -> str:
        return f"{self._subnet}.{node}"

    def prefix(self, node: int) -> list[str]:
        """Before a command that is to run there."""
        return ["ip", "netns", "exec", self._space(node)]

    def _space(self, node: int) -> str:
        return f"{self._tag}n{node}"

    def _inside(self, node: int, *words: str, check: bool = True) -> str:
        return run(*self.prefix(node), *words, check=check)

    # -- making and removing -------------------------------------------------------------------

    def _claim(self) -> None:
        """A number that no other run has: whoever makes the bridge of its name has it."""
        refused = ""
        for attempt in range(NETWORKS):
            number = (os.getpid() + attempt) % NETWORKS
            self._tag = f"hr{number}"
            self._subnet, self._bridge = f"10.203.{number}", f"{self._tag}b"
            done = subprocess.run(
                ["ip", "link", "add", self._bridge, "type", "bridge"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return
            refused = done.stderr.strip()
            if "exists" not in refused:
                break
        self._bridge = ""
        not_run(f"no bridges here: {refused}")

    def make(self) -> None:
        self._claim()
        run("ip", "addr", "add", f"{self.address(CLIENT)}/24", "dev", self._bridge)
        run("ip", "link", "set", self._bridge, "up")
        for node in self._nodes:
            space, outer = self._space(node), f"{self._tag}v{node}"
            run("ip", "netns", "add", space)
            words = ["ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0"]
            run(*words, "netns", space)
            run("ip", "link", "set", outer, "master", self._bridge)
            run("ip", "link", "set", outer, "up")
            self._inside(node, "ip", "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            self._inside(node, "ip", "link", "set", "eth0", "up")
            self._inside(node, "ip", "link", "set", "lo", "up")

    def remove(self) -> None:
        if not self._bridge:
            return
        for node in self._nodes:
            run("ip", "link", "del", f"{self._tag}v{node}", check=False)
            run("ip", "netns", "del", self._space(node), check=False)
        run("ip", "link", "del", self._bridge, check=False)

    # -- faults --------------------------------------------------------------------------------

    def _hurt(self, node: int, incoming: str | None, outgoing: str | None) -> None:
        """Rules for what the node hears and says; each is a match and a verdict."""
        self.heal(node)
        self.hurt.add(node)
        rules = [f"table inet {TABLE} {{"]
        for hook, rule in (("input", incoming), ("output", outgoing)):
            if rule is not None:
                device = "iifname" if hook == "input" else "oifname"
                rules += [f"chain {hook} {{", f"type filter hook {hook} priority 0"]
                rules += [f'{device} "eth0" {rule}', "}"]
        rules.append("}")
        self._inside(node, "nft", "\n".join(rules))

    def isolate(self, node: int) -> None:
        self._hurt(node, "counter drop", "counter drop")

    def deafen(self, node: int) -> None:
        """It can say and not hear."""
        self._hurt(node, "counter drop", None)

    def mute(self, node: int) -> None:
        """It can hear and not say."""
        self._hurt(node, None, "counter drop")

    def cut_from(self, node: int, others: Sequence[int]) -> None:
        addresses = ", ".join(self.address(other) for other in others)
        self._hurt(
            node,
            f"ip saddr {{ {addresses} }} counter drop",
            f"ip daddr {{ {addresses} }} counter drop",
        )

    def lose(self, node: int, percent: int) -> None:
        rule = f"numgen random mod 100 < {percent} counter drop"
        self._hurt(node, rule, rule)

    def reset(self, node: int) -> None:
        """Whoever sends it a piece of a connection is told that there is none."""
        self._hurt(node, "meta l4proto tcp counter reject with tcp reset", None)

    def lead_through(self, node: int, target: int, target_port: int, port: int, mark: int) -> None:
        """What the node says to the target's port goes to a port of its own, unless it has the
        mark. A connection that stands is led there in the midst, and reset."""
        self.heal(node)
        self.hurt.add(node)
        match = f"ip daddr {self.address(target)} tcp dport {target_port} meta mark != {mark}"
        rules = [f"table ip {TABLE} {{", "chain output {", "type nat hook output priority -100"]
        rules += [f"{match} counter redirect to :{port}", "}", "}"]
        self._inside(node, "nft", "\n".join(rules))

    def vanish(self, node: int, mark: int) -> None:
        """Nothing with the mark leaves the node any more, not even the end of a connection; what
        was led astray is led there no longer."""
        self.hurt.add(node)
        # In one go, and with a redirection of nothing: without any the kernel would forget those of
        # connections that stand.
        rules = ["flush ruleset", f"table ip {TABLE} {{", "chain output {"]
        rules += ["type nat hook output priority -100", "tcp dport 1 redirect to :1", "}", "}"]
        rules += [f"table inet {TABLE} {{", "chain output {", "type filter hook output priority 0"]
        rules += [f"meta mark {mark} counter drop", "}", "}"]
        self._inside(node, "nft", "\n".join(rules))

    def narrow(self, node: int, kbit: int) -> None:
        """A thin line: what the node says leaves at so many kilobits a second."""
        self.heal(node)
        self.hurt.add(node)
        words = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf"]
        words += ["rate", f"{kbit}kbit", "burst", "16kb", "latency", "2s"]
        self._inside(node, *words)

    def struck(self, node: int) -> int:
        """Packets that the rules of this node have met since they were made."""
        told = json.loads(self._inside(node, "nft", "-j", "list", "ruleset"))
        return sum(
            expression["counter"]["packets"]
            for item in told["nftables"]
            for expression in item.get("rule", {}).get("expr", [])
            if "counter" in expression
        )

    def held_back(self, node: int) -> int:
        """Times that a packet of this node had to wait for the thin line."""
        told = json.loads(self._inside(node, "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
        return sum(each["overlimits"] for each in told if each["kind"] == "tbf")

    def heal(self, node: int) -> None:
        self.hurt.discard(node)
        self._inside(node, "nft", "flush", "ruleset")
        self._inside(node, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)

    def heal_all(self) -> None:
        for node in list(self.hurt):
            self.heal(node)


@contextlib.contextmanager
def network(nodes: Sequence[int]) -> Iterator[Network]:
    if os.getuid() != 0:
        not_run("namespaces need root")
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            not_run(f"{program} is not installed: apt-get install {package}")
    made = Network(nodes)
    try:
        made.make()
        yield made
    finally:
        made.remove()
