"""The scheduler under every event in any order, checked after each one."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from support.core_driver import Driver

from gputui.core.events import Mode

chances = st.randoms(use_true_random=False)


class SchedulerMachine(RuleBasedStateMachine):
    """Hypothesis chooses what happens, and finds the shortest story of a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()

    @rule(chance=chances)
    def add(self, chance: Random) -> None:
        self.driver.add(chance)

    @precondition(lambda self: len(self.driver.scheduler.book) > 0)
    @rule(chance=chances)
    def user_command(self, chance: Random) -> None:
        self.driver.user_command(chance)

    @rule(chance=chances)
    def turn(self, chance: Random) -> None:
        self.driver.turn(chance)

    @precondition(lambda self: self.driver.scheduler.mode is not Mode.RUNNING)
    @rule(chance=chances)
    def resume(self, chance: Random) -> None:
        self.driver.resume(chance)

    @rule(
        what=st.sampled_from(
            [
                "change_of_scene",
                "late_news",
                "seen_alive",
                "silent",
                "look",
                "new_owner",
                "taken_back",
                "clock_steps",
                "rerun_many",
            ]
        ),
        chance=chances,
    )
    def something_else(self, what: str, chance: Random) -> None:
        getattr(self.driver, what)(chance)

    def teardown(self) -> None:
        self.driver.model.check_pictures()


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=list(HealthCheck),
)

WEIGHTS = {
    Driver.user_command: 10,
    Driver.turn: 8,
    Driver.add: 4,
    Driver.resume: 2,
    Driver.change_of_scene: 1,
    Driver.late_news: 1,
    Driver.seen_alive: 1,
    Driver.silent: 1,
    Driver.place: 1,
    Driver.look: 1,
    Driver.new_owner: 1,
    Driver.taken_back: 2,
    Driver.clock_steps: 1,
    Driver.rerun_many: 1,
}


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 200))])
def test_nothing_breaks_on_a_long_random_walk(seed: int) -> None:
    """Walks deeper than a search can afford; the seed is the story."""
    driver, chance = Driver(), Random(seed)
    for happen in chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=300):
        happen(driver, chance)
    driver.model.check_pictures()
