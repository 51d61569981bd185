"""What a test says when bytes or tokens are not the right ones. By these words scripts/test-engines
knows that such a test must not run a second time."""


def assert_bytes(is_right, place):
    """`place`: whose bytes."""
    if not is_right:
        raise AssertionError(f"wrong bytes of {place}")


def assert_tokens(tokens, right):
    if tokens != right:
        raise AssertionError(f"wrong tokens: {tokens}, expected {right}")


def assert_answer(answer, right, most):
    """(tokens, the logprob of each): logprobs differ by `most` at most."""
    assert_tokens(answer[0], right[0])
    ours, others = answer[1], right[1]
    if len(ours) != len(others) or not all(abs(one - other) <= most for one, other in zip(ours, others)):
        raise AssertionError(f"wrong tokens: their logprobs are {ours}, expected {others} within {most}")


def assert_none_of(found, absent, what):
    """Of keys that are `absent`, none was found."""
    if found & absent:
        raise AssertionError(f"wrong verdicts: {what} found {sorted(found & absent)}, which are not stored")
