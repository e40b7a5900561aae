"""Which of a sequence's sampled tokens count. The target was sampled at every position as if the drafts were right."""

from __future__ import annotations

from collections.abc import Sequence


def num_accepted(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> int:
    """How many drafts equal what the target sampled in their place, counted up to the first that doesn't.

    sampled_token_ids[i] was drawn after drafts 0..i-1; so it is exact as long as those were accepted, and the result's
    successor is the bonus token.
    """
    for i, draft in enumerate(draft_token_ids):
        if sampled_token_ids[i] != draft:
            return i
    return len(draft_token_ids)
