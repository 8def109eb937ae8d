"""The tables of states and of status codes."""

from ingest.rtmp import status
from ingest.rtmp.states import PHASES, STREAM_STATES, Phase, Step, StreamState, StreamStep


def test_every_phase_is_reached_and_can_be_closed() -> None:
    assert set(PHASES.values()) == set(Phase) - {Phase.HANDSHAKE}
    assert all(PHASES[phase, Step.CLOSE] is Phase.CLOSED for phase in Phase)


def test_a_closed_connection_stays_closed() -> None:
    assert {step for phase, step in PHASES if phase is Phase.CLOSED} == {Step.CLOSE}


def test_every_stream_state_is_reached_and_ends_in_idle() -> None:
    reached = {StreamState.IDLE}
    for _ in StreamState:
        reached |= {after for (before, _), after in STREAM_STATES.items() if before in reached}
    assert reached == set(StreamState)
    for state in StreamState:
        to_idle = {state}
        for _ in StreamState:
            to_idle |= {after for (before, _), after in STREAM_STATES.items() if before in to_idle}
        assert StreamState.IDLE in to_idle


def test_nothing_but_a_decision_moves_a_stream_that_was_asked_for() -> None:
    decisions = {StreamStep.ACCEPT, StreamStep.REJECT}
    for asked, other in (
        (StreamState.PUBLISH_ASKED, set()),
        (StreamState.PLAY_ASKED, {StreamStep.SKIP}),
        (StreamState.SWITCH_ASKED, {StreamStep.STOP}),
    ):
        assert {step for state, step in STREAM_STATES if state is asked} == decisions | other


def test_levels() -> None:
    assert status.level_of("NetStream.Publish.BadName") == "error"
    assert status.level_of("NetStream.Play.InsufficientBW") == "warning"
    assert status.level_of("NetStream.Play.Start") == "status"
    assert status.level_of("Application.Own") == "status"


def test_failures_are_errors() -> None:
    for code, level in status.LEVELS.items():
        failed = code.rsplit(".", 1)[1] in {"Failed", "Rejected", "BadName", "Denied", "InvalidApp", "StreamNotFound"}
        assert (level == "error") >= failed, code
