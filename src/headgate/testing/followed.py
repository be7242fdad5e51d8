"""What every followed source must do: a stream, a clock, anything with one place to go on from.

class TestMySource(FollowedConformance):
    @pytest.fixture
    def world(self):
        return MyWorld()              # see `FollowedWorld`
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Protocol

from headgate.errors import Unavailable
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key, fingerprint
from headgate.model.ports import Advance, Followed

from .expect import raised

WITHIN_SECONDS = 20.0


class FollowedWorld(Protocol):
    """The other side of a followed source. Nothing has happened there yet."""

    @property
    def source(self) -> Followed:
        """The source under test; always the same one. It is followed several times."""
        ...

    def happen(self, times: int) -> None:
        """Let so many further things happen that the source has to tell."""
        ...

    def outage(self) -> AbstractContextManager[None] | None:
        """While it lasts, the source cannot be followed. None for one that cannot fail."""
        ...


def read(
    world: FollowedWorld, checkpoint: str | None, *, expect: int, happen: int = 0
) -> list[Advance]:
    """Follow from the checkpoint until so much was told and there is nothing more to tell.

    `happen` things happen as soon as the source is quiet for the first time.
    """

    async def follow() -> list[Advance]:
        advances: list[Advance] = []
        to_come = happen
        async with (
            asyncio.timeout(WITHIN_SECONDS),
            aclosing(world.source.follow(checkpoint)) as telling,
        ):
            async for advance in telling:
                if advance is not None:
                    advances.append(advance)
                elif to_come:
                    world.happen(to_come)
                    to_come = 0
                elif sum(len(a.told) for a in advances) >= expect:
                    break
        return advances

    return asyncio.run(follow())


def envelopes(advances: Sequence[Advance]) -> list[Envelope]:
    """Everything that was told; a conforming world tells nothing that cannot be read."""
    told = [one for advance in advances for one in advance.told]
    assert all(isinstance(one, Envelope) for one in told), told
    return [one for one in told if isinstance(one, Envelope)]


def known_by(advances: Sequence[Advance]) -> list[tuple[bytes, int]]:
    """What the ledger knows deliveries by: their key, and what a repetition must repeat."""
    return [(change_key(envelope), fingerprint(envelope)) for envelope in envelopes(advances)]


class FollowedConformance:
    """Subclass it, name it `Test…`, and give it a fixture `world`."""

    def test_a_working_source_passes_its_own_check(self, world: FollowedWorld) -> None:
        """A source that is declared well has nothing to complain about, and a name."""
        world.source.check()
        assert world.source.name
        assert world.source.provider

    def test_a_first_start_has_no_past(self, world: FollowedWorld) -> None:
        """It says that there is nothing to tell yet, rather than saying nothing."""
        assert envelopes(read(world, None, expect=0)) == []

    def test_what_happens_is_told_once(self, world: FollowedWorld) -> None:
        """Each thing has a key of its own, and whoever goes on from the mark hears none again."""
        advances = read(world, None, expect=4, happen=4)
        assert len(set(known_by(advances))) == 4
        assert envelopes(read(world, advances[-1].checkpoint, expect=0)) == []

    def test_what_happened_meanwhile_is_told(self, world: FollowedWorld) -> None:
        """Nobody followed for a while: everything since the mark is told, and nothing before it."""
        before = read(world, None, expect=1, happen=1)
        world.happen(3)
        after = read(world, before[-1].checkpoint, expect=3)
        assert len(envelopes(after)) == 3
        assert not set(known_by(before)) & set(known_by(after))

    def test_what_was_told_but_not_kept_is_told_again_the_same(self, world: FollowedWorld) -> None:
        """A commit that failed moves no mark: the same keys come again, in the same order."""
        start = read(world, None, expect=1, happen=1)[-1].checkpoint
        world.happen(3)
        first = read(world, start, expect=3)
        assert known_by(read(world, start, expect=3)) == known_by(first)

    def test_every_checkpoint_is_a_place_to_go_on_from(self, world: FollowedWorld) -> None:
        """What was told up to a checkpoint, and what comes from there, is everything, once."""
        start = read(world, None, expect=1, happen=1)[-1].checkpoint
        world.happen(4)
        whole = read(world, start, expect=4)
        for n, advance in enumerate(whole, 1):
            kept = known_by(whole[:n])
            rest = read(world, advance.checkpoint, expect=4 - len(kept))
            assert kept + known_by(rest) == known_by(whole)

    def test_an_outage_is_said_and_costs_nothing(self, world: FollowedWorld) -> None:
        """A source that cannot be followed is unavailable; afterwards nothing is missing."""
        if (outage := world.outage()) is None:
            return
        start = read(world, None, expect=1, happen=1)[-1].checkpoint
        with outage:
            raised(Unavailable, lambda: read(world, start, expect=1))
        world.happen(2)
        assert len(envelopes(read(world, start, expect=2))) == 2

    def test_a_follower_can_be_stopped_while_it_waits(self, world: FollowedWorld) -> None:
        """Ending a process does not wait for something to happen."""

        async def stop() -> None:
            async def wait() -> None:
                async with aclosing(world.source.follow(None)) as telling:
                    async for _ in telling:
                        quiet.set()

            quiet = asyncio.Event()
            waiting = asyncio.create_task(wait())
            async with asyncio.timeout(WITHIN_SECONDS):
                await quiet.wait()
                waiting.cancel()
                await asyncio.wait([waiting])
            assert waiting.cancelled()

        asyncio.run(stop())
