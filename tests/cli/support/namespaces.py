"""Two network namespaces joined by a cable, as if they were two machines."""

import fcntl
import heapq
import os
import pathlib
import select
import shutil
import struct
import subprocess
import threading
import time

NOBODY = "02:00:00:00:00:99"
HOSTS = pathlib.Path("/etc/netns")


def ip(*arguments):
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def why_none():
    """The missing parts for namespaces; empty if there are none."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip here: install Debian's package iproute2"
    name = f"fpt{os.getpid()}"
    try:
        ip("netns", "add", name)
    except OSError as error:
        return f"no network namespace can be made here: {error}"
    ip("netns", "delete", name)
    return ""


class Machine:
    """One namespace, with its end of the cable."""

    DEVICE = "cable"

    def __init__(self, case, name, number):
        self.name = f"fp{name}{os.getpid()}"
        self.number = number
        self.ipv4, self.ipv6 = f"198.18.0.{number}", f"fd00:f0::{number}"
        ip("netns", "add", self.name)
        case.addCleanup(ip, "netns", "delete", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def connect(self):
        # Addresses are there at once, and stay when the cable is out.
        for setting in ("accept_dad=0", "keep_addr_on_down=1"):
            self.run("sysctl", "-q", "-w", f"net.ipv6.conf.{self.DEVICE}.{setting}")
        ip("-n", self.name, "address", "add", f"{self.ipv4}/24", "dev", self.DEVICE)
        ip("-n", self.name, "address", "add", f"{self.ipv6}/64", "dev", self.DEVICE, "nodad")
        self.plug("up")

    def plug(self, state):
        ip("-n", self.name, "link", "set", self.DEVICE, state)

    def run(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.name, *command], check=True, capture_output=True,
                              text=True).stdout

    def lose_sight_of(self, other):
        """All that is sent to the other goes to nobody, while the cable looks well."""
        for address in (other.ipv4, other.ipv6):
            ip("-n", self.name, "neighbour", "replace", address, "lladdr", NOBODY, "dev", self.DEVICE, "nud", "permanent")

    def find(self, other):
        for address in (other.ipv4, other.ipv6):
            ip("-n", self.name, "neighbour", "delete", address, "dev", self.DEVICE)

    def call(self, case, host, address):
        """Gives it a name for an address, here alone."""
        folder = HOSTS / self.name
        is_new = not HOSTS.exists()
        folder.mkdir(parents=True)
        if is_new:
            case.addCleanup(HOSTS.rmdir)
        case.addCleanup(shutil.rmtree, folder)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {host}\n")


def join(first, second):
    ip("link", "add", first.DEVICE, "netns", first.name, "type", "veth", "peer", "name", second.DEVICE, "netns",
       second.name)
    first.connect()
    second.connect()


class LongWay:
    """A second cable between two machines, on which every packet takes its time."""

    TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
    MTU = 1500

    def __init__(self, case, machines, delay_s):
        self.delay_s = delay_s
        self.ends = [self.plug_in(machine) for machine in machines]
        self.stop_reading, self.stop = os.pipe()
        self.thread = threading.Thread(target=self.carry)
        self.thread.start()
        case.addCleanup(self.close)

    @staticmethod
    def address(machine):
        return f"198.18.1.{machine.number}"

    def plug_in(self, machine):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        device = f"fp{machine.number}w{os.getpid()}"
        fcntl.ioctl(end, self.TUNSETIFF, struct.pack("16sH22x", device.encode(), self.IFF_TUN | self.IFF_NO_PI))
        ip("link", "set", device, "netns", machine.name)
        ip("-n", machine.name, "address", "add", f"{self.address(machine)}/24", "dev", device)
        ip("-n", machine.name, "link", "set", device, "mtu", self.MTU, "up")
        return end

    def carry(self):
        other = dict(zip(self.ends, reversed(self.ends)))
        under_way, number = [], 0
        while True:
            wait_s = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
            readable, _, _ = select.select([self.stop_reading, *self.ends], [], [], wait_s)
            if self.stop_reading in readable:
                return
            for end in readable:
                number += 1
                heapq.heappush(under_way, (time.monotonic() + self.delay_s, number, other[end], os.read(end, self.MTU)))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(under_way)
                os.write(end, packet)

    def close(self):
        os.write(self.stop, b"!")
        self.thread.join()
        for descriptor in (*self.ends, self.stop, self.stop_reading):
            os.close(descriptor)
