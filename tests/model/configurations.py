"""The searches: the configurations with every guard, and each guard switched off."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Every guard is on, and the search is exhaustive and exact."""

    name: str
    model: str
    defines: tuple[str, ...]
    what: str
    in_ci: bool = True


@dataclasses.dataclass(frozen=True)
class Guard:
    """`defines` is the smallest world that shows its absence, or one searched for that in vain."""

    name: str
    model: str
    defines: tuple[str, ...]
    breaks: str  # an invariant, or NOTHING

    @property
    def switched_off(self):
        return (*(f"no_{name}" for name in self.name.split("+")), *self.defines)


NOTHING = "nothing"
ALL = ("evictions", "fills", "joining")
AT_ONCE = "fetch_at_once"
I2_ONLY = "unchecked_I5"
I5_ONLY = "unchecked_I2"

CONFIGURATIONS = (
    Configuration("two-epochs", "replicas", ("PUTS=3", "joining"), "two epoch changes, three puts; fetches in steps"),
    Configuration("two-epochs-with-two-puts", "replicas", ("PUTS=2", "evictions", "joining"), "the same with evictions and two puts"),
    Configuration("all-at-once", "replicas", (AT_ONCE, "PUTS=3", "removes", *ALL),
                  "two epoch changes, two puts and a remove, evictions, fills; fetches in one step"),
    Configuration("reuse", "reuse", (), "one slot, four pages of two keys, locations of any age"),
    Configuration("reuse-by-two-reads", "reuse", ("two_reads",), "the same; header and payload come by a READ each"),
    Configuration("landing", "landing", (), "two places, two attempts, a deadline"),
    Configuration("landing-pushed", "landing", ("push",), "the first attempt is pushed by the peer"),
    Configuration("landing-copied", "landing", ("copied",), "the first attempt is copied by a CPU thread"),
    Configuration("two-epochs-with-evictions", "replicas", ("PUTS=3", "evictions", "joining"), "two-epochs with evictions", False),
    Configuration("two-epochs-with-fills", "replicas", ("PUTS=1", *ALL), "one put, evictions and fills; fetches in steps", False),
    Configuration("all-at-once-with-three-puts", "replicas", (AT_ONCE, "PUTS=3", *ALL), "all-at-once with three puts and no remove", False),
    Configuration("three-epochs-at-once", "replicas", (AT_ONCE, "EPOCHS=4", "PUTS=2", "evictions", "joining"),
                  "three epoch changes, two puts, evictions; fetches in one step", False),
    Configuration("three-epochs-with-fills-at-once", "replicas", (AT_ONCE, "EPOCHS=4", "PUTS=1", *ALL),
                  "three epoch changes, one put, evictions, fills; fetches in one step", False),
)

GUARDS = (
    # The steps of a put and of a fetch.
    Guard("live_word", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("live_word_before_ack", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("header_reread_for_local", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("all_of_epoch", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("fifo_replication", "replicas", (I2_ONLY, AT_ONCE, "PUTS=2", "evictions"), "I2"),
    Guard("newer_only", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "fills"), "I2"),
    Guard("floor", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "evictions", "fills"), "I2"),
    # Epochs.
    Guard("epoch_in_messages", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "evictions", "fills"), "I2"),
    Guard("epoch_in_messages", "replicas", (I2_ONLY, AT_ONCE, "PUTS=2", "evictions"), "I2"),
    Guard("epoch_in_version", "replicas", (I2_ONLY, "PUTS=2"), "I2"),
    Guard("drop_on_entering", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "joining"), "I2"),
    Guard("kill_before_confirm", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "joining"), "I2"),
    Guard("confirm_before_puts", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "joining"), "I2"),
    Guard("own_transaction_return", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1"), "I2"),
    Guard("bytes_of_the_epoch_before", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", "fills", "joining"), "I2"),
    Guard("view_wait", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("linearizable_view", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("view_age", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("view_checked_after_begin", "replicas", (I2_ONLY, "PUTS=1"), "I2"),
    Guard("view_checked_at_completion", "replicas", (I5_ONLY, "PUTS=1"), "I5"),
    Guard("primary_lease", "replicas", (I5_ONLY, AT_ONCE, "PUTS=2"), "I5"),
    # Reuse of a slot.
    Guard("kill_on_free", "reuse", (), "I1"),
    Guard("stamp_after_unpublish", "reuse", (), "I1"),
    Guard("reuse_wait", "reuse", (), "I1"),
    Guard("lease_per_read", "reuse", (), "I1"),
    Guard("lease_from_first_post", "reuse", ("two_reads",), "I1"),
    Guard("exact_header", "reuse", (), "I1"),
    # Landings.
    Guard("one_landing_one_attempt+ready_needs_all_ended", "landing", (), "I4"),
    Guard("hold_until_ended", "landing", (), "I4"),
    Guard("push_ended_by_invalidation", "landing", ("push",), "I4"),
    Guard("landing_mark", "landing", ("copied",), "I4"),
    Guard("gpu_flush", "landing", (), "I4"),
    Guard("verdict_cas", "landing", (), "I4"),
    Guard("zero_landing", "landing", (), "I2"),
    # Searched to the end without them.
    Guard("primary_lease", "replicas", (I2_ONLY, AT_ONCE, "PUTS=3", "evictions", "joining"), NOTHING),
    Guard("primary_lease", "replicas", (I2_ONLY, AT_ONCE, "PUTS=1", *ALL), NOTHING),
    Guard("view_checked_at_completion", "replicas", (I2_ONLY, "PUTS=2", "joining"), NOTHING),
    Guard("abort_on_entering", "replicas", (AT_ONCE, "PUTS=3", "evictions", "joining"), NOTHING),
    Guard("abort_on_entering", "replicas", (AT_ONCE, "PUTS=1", *ALL), NOTHING),
    Guard("incarnation_in_view", "replicas", (AT_ONCE, "PUTS=1", *ALL), NOTHING),
    Guard("live_word_last", "reuse", (), NOTHING),
    Guard("one_landing_one_attempt", "landing", (), NOTHING),
    Guard("ready_needs_all_ended", "landing", (), NOTHING),
)
